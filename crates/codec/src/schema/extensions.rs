//! Extensions: for each message that has some, a message whose fields they are.
//!
//! Why a message: an object keeps extensions as the unknown fields that they are on the wire, and whoever wants them decodes
//! these as the other class. Nothing of the table, the lanes or the serialisers needs to know.

use super::descriptor as raw;
use super::resolve::{Build, Found};
use super::{MAX_FIELDS, MAX_MESSAGES, Message, Problem, SchemaError, Symbol};
use std::collections::HashMap;

/// Appends the messages of extensions; from extended classes to them. An error is with its file's index.
///
/// Extensions of a message that is not in the schema (descriptor.proto's options), and of message sets, are left out.
pub(super) fn append(
    build: &Build<'_>,
    messages: &mut Vec<Message>,
) -> Result<HashMap<u32, u32>, (u32, SchemaError)> {
    let mut classes = HashMap::new();
    let nothing = raw::Message::default();
    for found in &build.walk.extensions {
        let at = |problem: Problem| (found.file, problem.at(format!("extension {}", found.name)));
        let extendee = found.raw.extendee.strip_prefix('.').and_then(|name| build.walk.names.get(name));
        let Some(&Symbol::Message(extended)) = extendee else { continue };
        if build.walk.messages[extended as usize].raw.message_set {
            continue;
        }
        let scope =
            Found { raw: &nothing, name: found.name.clone(), file: found.file, features: found.features };
        let mut field = build.field(&scope, found.raw).map_err(at)?;
        field.name.clone_from(&found.name);
        field.json_name = format!("[{}]", found.name);
        let class = *classes.entry(extended).or_insert(messages.len() as u32);
        if class as usize == messages.len() {
            if messages.len() == MAX_MESSAGES {
                return Err(at(Problem::TooMany("messages", MAX_MESSAGES + 1, MAX_MESSAGES)));
            }
            let of = &messages[extended as usize];
            let (name, file) = (format!("{}.(extensions)", of.name), of.file);
            let (fields, oneofs) = (Vec::new(), Vec::new());
            messages.push(Message {
                name,
                file,
                class,
                fields,
                oneofs,
                map_entry: false,
                reserved: Vec::new(),
                extends: Some(extended),
            });
        }
        messages[class as usize].fields.push(field);
    }
    for message in messages.iter_mut().filter(|message| message.extends.is_some()) {
        let at = |problem: Problem| (message.file, problem.at(message.name.clone()));
        let fields = &mut message.fields;
        if fields.len() > MAX_FIELDS {
            return Err(at(Problem::TooMany("extensions", fields.len(), MAX_FIELDS)));
        }
        fields.sort_by_key(|field| field.number);
        if let Some(pair) = fields.windows(2).find(|pair| pair[0].number == pair[1].number) {
            return Err(at(Problem::DuplicateNumber(pair[0].number)));
        }
    }
    Ok(classes)
}
