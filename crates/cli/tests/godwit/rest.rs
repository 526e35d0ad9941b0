//! Owns requests of the REST API that no command makes, as any user of a node.
//! Knows no route.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use godwit_client::NodeAddress;
use serde_json::{Value, json};

use super::rig::Rig;

/// An answer: the status, and the document if there is one.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Answer {
    /// The document of an answer with this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.body
    }
}

/// A user that sends requests to a node: the one that runs the test, or the one of a token.
pub(crate) struct Caller<'a> {
    rig: &'a Rig,
    headers: String,
}

impl<'a> Caller<'a> {
    /// The user that runs the test, an admin.
    pub(crate) fn admin(rig: &'a Rig) -> Self {
        let headers = String::new();
        Self { rig, headers }
    }

    /// A new user of the node with this role, by a token.
    #[track_caller]
    pub(crate) fn user(rig: &'a Rig, name: &str, role: &str) -> Self {
        let admin = Self::admin(rig);
        let user = json!({"role": role});
        admin.put(&format!("users/{name}"), &user).expect(200);
        let made = admin.post("tokens", &json!({"user": name, "role": role}));
        let made = made.expect(201);
        Self::with_token(rig, made["secret"].as_str().expect("a secret"))
    }

    /// The user of a token.
    pub(crate) fn with_token(rig: &'a Rig, token: &str) -> Self {
        let headers = format!("Authorization: Bearer {token}\r\n");
        Self { rig, headers }
    }

    /// The same caller, with one more header.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    /// Whether the node says that it takes changes; None if it does not answer at all.
    pub(crate) fn is_ready(&self) -> Option<bool> {
        let answer = self.request("GET", "/readyz", None).ok()?;
        match answer.status {
            200 => Some(true),
            503 => Some(false),
            _ => panic!("{answer:?}"),
        }
    }

    /// The answer of a node that is ready.
    #[track_caller]
    pub(crate) fn readiness(&self) -> Value {
        let answer = self.request("GET", "/readyz", None);
        answer.expect("a node that answers").expect(200)
    }

    /// The figures for Prometheus, as text.
    #[track_caller]
    pub(crate) fn metrics(&self) -> String {
        let answer = self.request("GET", "/metrics", None);
        let text = answer.expect("a node that answers").expect(200);
        text.as_str().expect("text").to_owned()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(body))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask("PUT", path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, None)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.request(method, &format!("/api/v1/{path}"), body)
            .expect("a node that answers")
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let socket = NodeAddress::socket_of(&self.rig.daemon_home);
        let mut stream = UnixStream::connect(socket)?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n{}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.headers,
            body.len(),
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let whole = answer.split_once("\r\n\r\n");
        let (head, body) = whole.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        Ok(Answer {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())),
        })
    }
}
