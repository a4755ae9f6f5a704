//! A client's record in a file: a line for each event, in the kernel's hands before the client goes on. Who is killed leaves all that it did.
//!
//! Lines are much as in `docs/history.md`, for one client, with times of the machine's clock. A last line that is not whole is of a client
//! that was killed while it wrote it, before it sent anything, or before it went on: it is left out.

use super::record::{Class, Event, Saw};
use base::Nanos;
use serde_json::{Map, Value as Json, json};
use sim::history::{Answer, Call, bytes_of_json, json_of_bytes};
use sim::kv::{Op, Ret};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The file, while it is written.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// A new one.
    pub fn create(path: &Path) -> io::Result<Journal> {
        File::create_new(path).map(Journal)
    }

    /// Adds an event, in one call to the kernel.
    pub fn write(&mut self, (at, id, saw): &Event) -> io::Result<()> {
        let mut line = match saw {
            Saw::Call { key, op } => {
                json!({ "t": at.0, "id": id, "op": op.name(), "k": json_of_bytes(key), "a": op.args() })
            }
            Saw::Return(ret, class) => json!({ "t": at.0, "id": id, "r": ret.fields(), "class": class }),
        }
        .to_string();
        line.push('\n');
        self.0.write_all(line.as_bytes())
    }
}

/// All whole lines of a file.
///
/// # Errors
/// The system's, or a line that [`Journal`] does not write, in words.
pub fn read(path: &Path) -> Result<Vec<Event>, String> {
    let text = std::fs::read_to_string(path).map_err(|cause| cause.to_string())?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line =
        |(number, line): (usize, &str)| parse(line).map_err(|why| format!("line {}: {why}", number + 1));
    whole.lines().enumerate().map(line).collect()
}

fn parse(line: &str) -> Result<Event, String> {
    let mut json: Map<String, Json> = serde_json::from_str(line).map_err(|cause| cause.to_string())?;
    let mut take = |name: &str| json.remove(name).ok_or_else(|| format!("{name:?} is missing"));
    let number = |json: Json| json.as_u64().ok_or_else(|| format!("{json} is no whole number"));
    let object = |json: Json| match json {
        Json::Object(fields) => Ok(fields),
        other => Err(format!("{other} is no object")),
    };
    let (at, id) = (Nanos(number(take("t")?)?), number(take("id")?)?);
    let saw = match take("op") {
        Ok(name) => {
            let op = Op::read(name.as_str().unwrap_or(""), &object(take("a")?)?)?;
            Saw::Call { key: bytes_of_json(&take("k")?)?, op }
        }
        Err(_) => {
            let class: Option<Class> =
                serde_json::from_value(take("class")?).map_err(|cause| cause.to_string())?;
            Saw::Return(Ret::read(&object(take("r")?)?)?, class)
        }
    };
    Ok((at, id, saw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::kv::{Status, Value};
    use tempfile::TempDir;

    #[test]
    fn what_is_written_is_read_but_for_a_broken_end() {
        let folder = TempDir::with_prefix("millrace-").expect("a folder");
        let path = folder.path().join("journal");
        let events: [Event; 3] = [
            (
                Nanos(5),
                1,
                Saw::Call { key: b"k\xff".to_vec(), op: Op::Set { value: Value::of(b"v"), ttl: None } },
            ),
            (Nanos(u64::MAX), 1, Saw::Return(Ret::of(Status::Ok), Some(Class::ComputeHit))),
            (Nanos(7), 2, Saw::Return(Ret::of(Status::Error), None)),
        ];
        let mut journal = Journal::create(&path).expect("a file");
        events.iter().for_each(|event| journal.write(event).expect("room"));
        assert_eq!(read(&path).expect("whole lines"), events);
        journal.0.write_all(b"{\"t\":9,").expect("room");
        assert_eq!(read(&path).expect("whole lines"), events);
        journal.0.write_all(b"}\n").expect("room");
        assert!(read(&path).expect_err("no such line").starts_with("line 4: "));
    }
}
