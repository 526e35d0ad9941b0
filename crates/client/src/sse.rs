//! Parses a stream of server-sent events: bytes in, events out. Lines end with LF or CRLF. Reads no
//! sockets, and does not interpret the events.

use std::collections::VecDeque;

/// The longest event: a job with its summary has some KiB, a job with thousands of long sources a
/// few MiB.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// One event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ServerEvent {
    /// The name of the event; `message` if the server sent none.
    pub(crate) name: String,
    /// The data of the event; its lines are joined by LF.
    pub(crate) data: String,
    /// The id that is valid after the event.
    pub(crate) id: Option<String>,
}

/// The stream violates the format: the rest of it cannot be read.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Malformed {
    /// An event is longer than the bound.
    TooLong,
    /// The text is not UTF-8.
    NotText,
}

/// Parser of one stream.
#[derive(Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    id: Option<String>,
    ready: VecDeque<ServerEvent>,
}

impl Parser {
    /// Parses the next bytes.
    pub(crate) fn handle_bytes(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let line = std::str::from_utf8(line).map_err(|_error| Malformed::NotText)?;
            self.handle_line(line);
            self.check()?;
        }
        self.line.extend_from_slice(bytes);
        self.check()
    }

    /// The next complete event.
    pub(crate) fn poll_event(&mut self) -> Option<ServerEvent> {
        self.ready.pop_front()
    }

    fn handle_line(&mut self, line: &str) {
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // A comment has no field name; other fields are for browsers.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            self.ready.push_back(ServerEvent {
                name: if name.is_empty() {
                    "message".to_owned()
                } else {
                    name
                },
                data,
                id: self.id.clone(),
            });
        }
    }

    fn check(&self) -> Result<(), Malformed> {
        let data = self.data.as_ref().map_or(0, String::len);
        let bytes = self.line.len() + data + self.name.len();
        if bytes > EVENT_BYTES_MAX {
            return Err(Malformed::TooLong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], part: usize) -> Vec<(String, String, Option<String>)> {
        let mut parser = Parser::default();
        for bytes in text.chunks(part) {
            parser.handle_bytes(bytes).expect("well formed");
        }
        std::iter::from_fn(|| parser.poll_event())
            .map(|event| (event.name, event.data, event.id))
            .collect()
    }

    #[test]
    fn events_are_the_same_in_whatever_parts_they_come() {
        let text = b": hello\n\nevent: job\r\nid: 7\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n\
                     data:plain\n\nevent: gone\n\nretry: 9\nid\ndata\n\nevent: cut\ndata: off";
        let own = |name: &str, data: &str, id: Option<&str>| {
            (name.to_owned(), data.to_owned(), id.map(str::to_owned))
        };
        let expected = [
            own("job", "{\"a\":\n1}", Some("7")),
            own("message", "plain", Some("7")),
            own("message", "", Some("")),
        ];
        for part in 1..=text.len() {
            assert_eq!(read(text, part), expected, "{part}");
        }
    }

    #[test]
    fn a_stream_that_never_ends_an_event_is_refused() {
        let mut parser = Parser::default();
        let line = vec![b'x'; 1 << 20];
        let reported = (0..8).find_map(|_| parser.handle_bytes(&line).err());
        assert_eq!(reported, Some(Malformed::TooLong));
        let mut parser = Parser::default();
        let line = [&b"data: "[..], &line, b"\n"].concat();
        let reported = (0..8).find_map(|_| parser.handle_bytes(&line).err());
        assert_eq!(reported, Some(Malformed::TooLong));
        assert_eq!(
            Parser::default().handle_bytes(b"data: \xff\n"),
            Err(Malformed::NotText)
        );
    }
}
