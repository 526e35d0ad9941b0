//! Tests which peers may connect to which, and the errors for all others.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::thread;
use std::time::Duration;

use godwit_net::{
    AcceptError, AcceptOptions, ApparentProtocol, Cipher, DialError, DialOptions, Expect,
    PeerAddress, accept, dial,
};
use rustix::net::{AddressFamily, SocketType};

use super::common::{
    PATIENCE, client_identity, client_tls, identity, listen, meet, options, server_identity,
    server_tls,
};

#[test]
fn both_ends_learn_who_the_other_is() {
    for cipher in Cipher::ALL {
        let (mut dialling, accepting) = options(&Default::default());
        dialling.expect = Expect::Anyone;
        let (client, server) = meet(
            &client_tls(&[cipher]),
            &server_tls(&[]),
            &dialling,
            &accepting,
        );
        let (client, server) = (client.unwrap(), server.unwrap());
        assert_eq!(client.1, *server_identity().id());
        assert_eq!(server.peer, *client_identity().id());
        assert_eq!(server.alpn, godwit_net::ALPN_DATA);
        assert_eq!(server.cipher, cipher);
    }
}

#[test]
fn a_client_that_prefers_nothing_gets_the_fastest_cipher_of_its_processor() {
    let (dialling, accepting) = options(&Default::default());
    let (_, server) = meet(&client_tls(&[]), &server_tls(&[]), &dialling, &accepting);
    assert_eq!(server.unwrap().cipher, godwit_net::aead::ciphers()[0]);
}

#[test]
fn ends_without_a_common_cipher_say_so() {
    let (dialling, accepting) = options(&Default::default());
    let (client, server) = meet(
        &client_tls(&[Cipher::Aes128Gcm]),
        &server_tls(&[Cipher::ChaCha20Poly1305]),
        &dialling,
        &accepting,
    );
    assert!(matches!(client, Err(DialError::Tls { .. })));
    assert!(matches!(server, Err(AcceptError::Tls { .. })));
}

#[test]
fn another_identity_than_the_trusted_one_is_refused_by_name() {
    let (mut dialling, accepting) = options(&Default::default());
    let stranger = identity();
    dialling.expect = Expect::Identity(*stranger.id());
    let (client, server) = meet(&client_tls(&[]), &server_tls(&[]), &dialling, &accepting);
    let Err(error) = client else {
        panic!("the wrong server was trusted")
    };
    assert!(error.is_authentication() && !error.is_retryable());
    let text = error.to_string();
    assert!(text.contains(&stranger.id().to_string()), "{text}");
    assert!(text.contains(&server_identity().id().to_string()), "{text}");
    assert!(server.is_err());
}

/// A daemon's answer to raw bytes, and its error about their sender.
fn answer_to(bytes: &'static [u8], deadline: Duration) -> (Vec<u8>, AcceptError) {
    let (listener, address) = listen();
    let client = thread::spawn(move || {
        let mut client = TcpStream::connect((address.host(), address.port())).unwrap();
        client.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset instead of an end is accepted too.
        let _ = client.read_to_end(&mut answer);
        answer
    });
    let options = AcceptOptions {
        deadline,
        ..AcceptOptions::default()
    };
    let accepted = accept(listener.accept().unwrap().0, &server_tls(&[]), &options);
    let Err(error) = accepted else {
        panic!("{bytes:?} was accepted")
    };
    (client.join().unwrap(), error)
}

#[test]
fn an_http_client_learns_where_it_is() {
    let (answer, error) = answer_to(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", PATIENCE);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("speaks godwit"), "{answer}");
    assert!(matches!(
        error,
        AcceptError::NotGodwit {
            looks_like: ApparentProtocol::Http,
            ..
        }
    ));
}

#[test]
fn other_protocols_are_named() {
    for (bytes, expected) in [
        (&b"SSH-2.0-OpenSSH_9.6\r\n"[..], "ssh"),
        (b"EHLO there\r\n", "text"),
        (b"\x00\x01\x02\n", "unknown"),
    ] {
        let (answer, error) = answer_to(bytes, PATIENCE);
        assert!(answer.is_empty());
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_damaged_hello_is_refused() {
    let (_, error) = answer_to(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", PATIENCE);
    assert!(matches!(error, AcceptError::Tls { .. }), "{error}");
    let (_, error) = answer_to(b"\x16\x03\x01\xff\xff\x01\x00\x00\x01\x00", PATIENCE);
    assert!(matches!(error, AcceptError::Broken { .. }), "{error}");
}

#[test]
fn a_silent_client_is_dropped_at_the_deadline() {
    for bytes in [&b""[..], b"\x16\x03\x01"] {
        let (_, error) = answer_to(bytes, Duration::from_millis(50));
        assert!(matches!(error, AcceptError::Deadline { .. }), "{error}");
    }
}

/// Progress does not extend the deadline: bytes come one at a time until the daemon closes.
#[test]
fn a_client_of_one_byte_at_a_time_is_dropped_at_the_deadline() {
    let (listener, address) = listen();
    let client = thread::spawn(move || {
        let mut client = TcpStream::connect((address.host(), address.port())).unwrap();
        client
            .write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc")
            .unwrap();
        client
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        let mut byte = [0];
        while client.write_all(b"x").is_ok() {
            if matches!(client.read(&mut byte), Ok(0)) {
                break;
            }
        }
    });
    let options = AcceptOptions {
        deadline: Duration::from_millis(100),
        ..AcceptOptions::default()
    };
    let accepted = accept(listener.accept().unwrap().0, &server_tls(&[]), &options);
    assert!(matches!(accepted, Err(AcceptError::Deadline { .. })));
    client.join().unwrap();
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let (listener, address) = listen();
    drop(TcpStream::connect((address.host(), address.port())).unwrap());
    let accepted = accept(
        listener.accept().unwrap().0,
        &server_tls(&[]),
        &AcceptOptions::default(),
    );
    assert!(matches!(accepted, Err(AcceptError::Broken { .. })));
}

fn dial_error(address: &PeerAddress, options: &DialOptions) -> DialError {
    match dial(address, &client_tls(&[]), options) {
        Ok(_) => panic!("{address} was connected to"),
        Err(error) => error,
    }
}

/// A client's error for a server that sends these bytes to every client, and then closes or stays silent.
fn verdict_on(bytes: &'static [u8], close: bool, deadline: Duration) -> DialError {
    let (listener, address) = listen();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(bytes).unwrap();
        if close {
            client.shutdown(Shutdown::Write).unwrap();
        }
        let _ = client.read_to_end(&mut Vec::new());
    });
    let mut options = DialOptions::new(Expect::Anyone);
    options.deadline = deadline;
    let error = dial_error(&address, &options);
    server.join().unwrap();
    error
}

#[test]
fn servers_of_other_protocols_are_named() {
    for (bytes, expected) in [
        (&b"SSH-2.0-OpenSSH_9.6\r\n"[..], "an ssh server"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server"),
        (b"\x05\xff", "unknown"),
    ] {
        let error = verdict_on(bytes, true, PATIENCE);
        assert!(matches!(error, DialError::NotGodwit { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    // A TLS alert: no application protocol in common.
    let error = verdict_on(b"\x15\x03\x03\x00\x02\x02\x78", true, PATIENCE);
    assert!(matches!(error, DialError::NotGodwit { .. }), "{error}");
}

#[test]
fn a_server_that_says_nothing_or_leaves_is_worth_a_retry() {
    let silent = verdict_on(b"", false, Duration::from_millis(100));
    assert!(matches!(silent, DialError::Deadline { .. }) && silent.is_retryable());
    let left = verdict_on(b"", true, PATIENCE);
    assert!(matches!(left, DialError::Broken { .. }) && left.is_retryable());
}

#[test]
fn a_refused_connection_names_host_port_and_remedy() {
    // Bound but not listening: no other process can get the port during the test.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: SocketAddrV4 = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&socket, &any).unwrap();
    let bound = SocketAddrV4::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let port = bound.port();
    let address = PeerAddress::new("127.0.0.1", port);
    let error = dial_error(&address, &DialOptions::new(Expect::Anyone));
    let text = error.to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    assert!(text.contains("godwit serve"), "{text}");
    assert!(error.is_retryable());
}
