//! A request over HTTP, and its answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    pub body: String,
}

/// Takes the next request that comes, and answers that it is well. Its path and body.
pub fn take(listener: &TcpListener) -> (String, String) {
    let (stream, _) = listener.accept().expect("somebody asks");
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("text") > 0, "it ended in {head:?}");
    }
    let lower = head.to_lowercase();
    let length =
        lower.split("content-length:").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
    let mut body = vec![0; length.expect("its length is said")];
    reader.read_exact(&mut body).expect("it comes");
    let well = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    reader.get_mut().write_all(well.as_bytes()).expect("it reads");
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    (path, String::from_utf8(body).expect("text"))
}

/// Sends a request with these headers, and reads to the end.
pub fn http(address: &str, headers: &[(&str, &str)], (method, path, body): (&str, &str, &str)) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the port");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let len = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\nContent-Length: {len}\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
}
