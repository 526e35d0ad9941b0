//! Owns the serving of the page: its files, compressed beforehand, and the headers that bind the page to this node.
//! Makes no file: `scripts/ui.sh` builds them from `ui/`, and they are committed.

use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::problem::ApiError;
use crate::routes::no_such_route;
use godwit_api::failure::FailureCode;

/// A file of the page.
struct File {
    /// From the root of the page, without a slash in front.
    path: &'static str,
    content_type: &'static str,
    /// The name has a digest of the content, so the content never changes.
    immutable: bool,
    /// A digest of the content.
    etag: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
    brotli: &'static [u8],
}

// `FILES`, in the order of their paths, and `SOURCE`, a digest of what they were built from.
include!("../../../ui/dist/files.in");

/// The file that answers every address without a file.
const INDEX: &str = "index.html";

/// Scripts, styles and connections of this node only; nothing inline, nothing evaluated, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Browser features that the page never uses.
const PERMISSIONS: &str = "camera=(), geolocation=(), microphone=(), payment=(), usb=()";

/// Paths for programs. A missing one is a problem document, never the page.
const OF_PROGRAMS: [&str; 6] = [
    "api",
    "docs",
    "openapi.json",
    "metrics",
    "healthz",
    "readyz",
];

/// Answers requests that match no route: with a file of the page, or with the page itself at each of its addresses.
pub(crate) async fn fallback(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    let file = find(path);
    if OF_PROGRAMS.contains(&first) || (file.is_none() && path.starts_with("assets/")) {
        return no_such_route(&uri).into_response();
    }
    if method != Method::GET && method != Method::HEAD {
        let refusal = ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            FailureCode::NoSuchMethod,
            format!("{path:?} belongs to the page, and the page allows reading only"),
        );
        let mut response = refusal.into_response();
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    // A program that asks for a missing path gets a problem. A browser gets the page, which resolves its own views.
    let is_view = path.is_empty() || accepts(&headers, ACCEPT).any(|one| one == "text/html");
    match file.or_else(|| find(INDEX).filter(|_| is_view)) {
        Some(file) => answer(file, &headers),
        None => no_such_route(&uri).into_response(),
    }
}

/// Values that the client accepts, by this header.
fn accepts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter(|one| !one.replace(' ', "").ends_with(";q=0"))
        .map(|one| one.split(';').next().unwrap_or_default().trim())
}

fn find(path: &str) -> Option<&'static File> {
    let found = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(found)
}

fn answer(file: &'static File, headers: &HeaderMap) -> Response {
    let known = headers.get(IF_NONE_MATCH);
    let known = known.and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == file.etag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let (body, encoding) = encoded(file, headers);
        let mut response = body.into_response();
        let content_type = HeaderValue::from_static(file.content_type);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        if let Some(encoding) = encoding {
            let encoding = HeaderValue::from_static(encoding);
            response.headers_mut().insert(CONTENT_ENCODING, encoding);
        }
        response
    };
    let cache = if file.immutable {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let set: [(HeaderName, &'static str); 7] = [
        (CACHE_CONTROL, cache),
        (ETAG, file.etag),
        (VARY, "accept-encoding"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ];
    for (name, value) in set {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The shortest form that the client takes.
fn encoded(file: &'static File, headers: &HeaderMap) -> (&'static [u8], Option<&'static str>) {
    let accepted: Vec<&str> = accepts(headers, ACCEPT_ENCODING).collect();
    if accepted.contains(&"br") && file.brotli.len() < file.plain.len() {
        return (file.brotli, Some("br"));
    }
    if accepted.contains(&"gzip") && file.gzip.len() < file.plain.len() {
        return (file.gzip, Some("gzip"));
    }
    (file.plain, None)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::secret::digest;

    /// The files that the page is built from, as `ui/scripts/bundle.mjs` lists them.
    fn sources(root: &Path) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = [
            "index.html",
            "package-lock.json",
            "scripts/safe-texts.js",
            "svelte.config.js",
            "vite.config.ts",
        ]
        .iter()
        .map(|name| root.join(name))
        .collect();
        let mut left = vec![root.join("src"), root.join("public")];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                } else if !entry.path().ends_with("src/lib/schema.d.ts") {
                    // The built files contain no types.
                    found.push(entry.path());
                }
            }
        }
        found
    }

    #[test]
    fn the_committed_page_was_built_from_its_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui");
        let mut lines: Vec<String> = sources(&root)
            .iter()
            .map(|path| {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
                let content = std::fs::read_to_string(path).unwrap();
                format!("{name} {}\n", digest(&content))
            })
            .collect();
        lines.sort();
        let mut all = String::new();
        for line in lines {
            all.write_str(&line).unwrap();
        }
        assert_eq!(
            digest(&all),
            SOURCE,
            "ui/ has changed since the page was built: run scripts/ui.sh and commit ui/dist"
        );
    }

    #[test]
    fn files_are_found_and_none_else() {
        assert!(FILES.is_sorted_by_key(|file| file.path));
        assert!(find(INDEX).is_some());
        assert!(find("").is_none());
        assert!(find("../Cargo.toml").is_none());
    }
}
