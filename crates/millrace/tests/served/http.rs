//! A request over HTTP, and its answer.

use std::io::{Read, Write};
use std::net::TcpStream;

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    pub body: String,
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
