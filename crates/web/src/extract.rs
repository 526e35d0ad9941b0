//! Parses paths, queries, bodies and headers of requests, and words the errors for invalid ones.
//! Knows no route.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{
    DefaultBodyLimit, FromRequest, FromRequestParts, OptionalFromRequest, Request,
};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::value::{Error as ValueError, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    Visitor,
};
use tokio::time::timeout;

use crate::app::App;
use crate::lingering::length_of;
use crate::problem::ApiError;
use godwit_api::failure::FailureCode;
use godwit_api::json::{Shape, VALUES_MAX};

/// The longest body: a command of the state is no longer.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// How long a client may take to send a body.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Parameters of a query.
const PARAMETERS_MAX: usize = 64;

/// The longest idempotency key: the state takes no longer name.
const KEY_BYTES_MAX: usize = 255;

/// The longest body of a request without credentials: a name, a password, a token.
const SMALL_BYTES_MAX: usize = 8 << 10;

/// How long a client without credentials may take to send one.
const SMALL_WITHIN: Duration = Duration::from_secs(10);

/// A JSON body. Handlers take it last, so it is read only after the caller was admitted.
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body of a sender that has proven no user yet.
pub(crate) struct Small<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequest<Arc<App>> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        Ok(Self(read(request, app, BODY_BYTES_MAX, BODY_WITHIN).await?))
    }
}

impl<T: DeserializeOwned + Send> OptionalFromRequest<Arc<App>> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Option<Self>, ApiError> {
        if !request.headers().contains_key(CONTENT_TYPE) {
            return Ok(None);
        }
        <Self as FromRequest<_>>::from_request(request, app)
            .await
            .map(Some)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Small<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        read(request, state, SMALL_BYTES_MAX, SMALL_WITHIN)
            .await
            .map(Self)
    }
}

/// Reads a body of at most this many bytes. A body whose head promises more is not read at all.
async fn read<T: DeserializeOwned, S: Send + Sync>(
    mut request: Request,
    state: &S,
    most: usize,
    within: Duration,
) -> Result<T, ApiError> {
    if length_of(request.headers()).is_some_and(|length| length > most as u64) {
        return Err(too_large(most));
    }
    DefaultBodyLimit::max(most).apply(&mut request);
    if !is_json(request.headers()) {
        let detail = "Expected request with `Content-Type: application/json`";
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            FailureCode::NotJson,
            detail,
        ));
    }
    let body = match timeout(within, Bytes::from_request(request, state)).await {
        Ok(Ok(body)) => body,
        Ok(Err(rejection)) => return Err(refuse(&rejection.into(), most)),
        Err(_elapsed) => {
            return Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                FailureCode::BodyTimeout,
                format!("the body did not arrive within {} s", within.as_secs()),
            ));
        }
    };
    if Shape::of(&body).values > VALUES_MAX {
        return Err(ApiError::invalid(format!(
            "the body has too many values: at most {VALUES_MAX}"
        )));
    }
    let read = Json::<T>::from_bytes(&body);
    read.map(|Json(value)| value)
        .map_err(|rejection| refuse(&rejection, most))
}

/// Whether the body is declared as JSON, directly or as a suffix of another type.
fn is_json(headers: &HeaderMap) -> bool {
    let given = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let given = given
        .and_then(|text| text.split(';').next())
        .unwrap_or_default();
    let given = given.trim().to_ascii_lowercase();
    let Some(kind) = given.strip_prefix("application/") else {
        return false;
    };
    kind == "json" || (kind.len() > "+json".len() && kind.ends_with("+json"))
}

fn too_large(most: usize) -> ApiError {
    let detail = format!("the body is too large: at most {most} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, FailureCode::TooLarge, detail)
}

fn refuse(rejection: &JsonRejection, most: usize) -> ApiError {
    let status = rejection.status();
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => return too_large(most),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => FailureCode::NotJson,
        StatusCode::UNPROCESSABLE_ENTITY => FailureCode::Invalid,
        _ => FailureCode::BadJson,
    };
    ApiError::new(status, code, rejection.body_text())
}

/// Parameter in the path of a request, such as the id of a job.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        found
            .map(|axum::extract::Path(value)| Self(value))
            .map_err(|rejection| {
                ApiError::new(
                    StatusCode::BAD_REQUEST,
                    FailureCode::BadPath,
                    rejection.body_text(),
                )
            })
    }
}

/// The query of a request. The values of a repeated parameter are joined with commas.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let bad =
            |detail: String| ApiError::new(StatusCode::BAD_REQUEST, FailureCode::BadQuery, detail);
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|rejection| bad(rejection.body_text()))?;
        if pairs.0.len() > PARAMETERS_MAX {
            return Err(bad(format!("at most {PARAMETERS_MAX} parameters")));
        }
        let mut merged: Vec<(String, String)> = Vec::new();
        for (name, value) in pairs.0 {
            match merged.iter_mut().find(|(known, _)| *known == name) {
                Some((_, before)) => {
                    before.push(',');
                    before.push_str(&value);
                }
                None => merged.push((name, value)),
            }
        }
        let pairs = Pairs {
            rest: merged.into_iter(),
            now: None,
        };
        T::deserialize(MapAccessDeserializer::new(pairs))
            .map(Self)
            .map_err(|error| bad(error.to_string()))
    }
}

/// The parameters of a query. An error names the parameter whose value is wrong.
struct Pairs {
    rest: std::vec::IntoIter<(String, String)>,
    now: Option<(String, String)>,
}

impl<'de> MapAccess<'de> for Pairs {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        self.now = self.rest.next();
        let name = self.now.as_ref().map(|(name, _)| name.clone());
        name.map(|name| seed.deserialize(name.into_deserializer()))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ValueError> {
        let (name, value) = self.now.take().unwrap_or_default();
        seed.deserialize(Part(value))
            .map_err(|error| ValueError::custom(format!("{name}: {error}")))
    }
}

/// A value of a query.
struct Part(String);

macro_rules! numbers {
    ($($method:ident $visit:ident $kind:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            let number = self.0.parse::<$kind>().map_err(|_error| {
                ValueError::custom(format!("{:?} is not a whole number that is possible here", self.0))
            })?;
            visitor.$visit(number)
        }
    )*};
}

impl<'de> Deserializer<'de> for Part {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    numbers!(deserialize_u64 visit_u64 u64, deserialize_u32 visit_u32 u32);

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The number of entries of a page, if the client named one.
pub(crate) fn limit(given: Option<u32>, usual: u32, most: u32) -> Result<usize, ApiError> {
    let limit = given.unwrap_or(usual);
    if limit == 0 || limit > most {
        return Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            FailureCode::BadQuery,
            format!("limit: {limit} is not possible; give 1 to {most}"),
        ));
    }
    Ok(limit as usize)
}

/// The idempotency key of a submission.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|text| {
        (1..=KEY_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let text = text.ok_or_else(|| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            FailureCode::BadHeader,
            format!("Idempotency-Key: 1 to {KEY_BYTES_MAX} visible signs of ASCII without spaces"),
        )
    })?;
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_json_by_itself_or_beneath_another_one() {
        let is = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, text.parse().expect("a value"));
            is_json(&headers)
        };
        for right in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/x+json",
        ] {
            assert!(is(right), "{right}");
        }
        for wrong in [
            "",
            "text/plain",
            "text/json",
            "application/jsonx",
            "application/+json",
            "a/application/json",
        ] {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
