//! What another crate may write for the services of the files, beside the messages. This crate knows where such code goes, what
//! things are called there, and what the .proto files say of them; what a service *is* in Rust it leaves to the writer.

use super::Writer;
use super::names::{Taken, identifier, path_to, snake};
use super::text::Text;
use crate::schema::{Method, Schema, Service};

/// Writes code for services; `fabric::build` has one.
pub trait ServiceWriter {
    /// The names of the items that it writes for a service which Rust would call `name`, as a type. Those that are taken get an underscore.
    fn items(&self, name: &str) -> Vec<String>;

    /// Writes these items.
    fn write(&self, text: &mut Text, site: &ServiceSite<'_>);
}

/// A service, at the place where its code is written.
#[derive(Debug)]
pub struct ServiceSite<'s> {
    /// All that was compiled.
    pub schema: &'s Schema,
    /// The service.
    pub service: &'s Service,
    /// What [`ServiceWriter::items`] said, made unique.
    pub items: &'s [String],
    /// The comment in the .proto file, as lines of documentation.
    pub doc: Option<&'s str>,
    /// Path of the constant with the descriptor set.
    pub descriptors: String,
    /// In the order of the .proto file.
    pub methods: Vec<MethodSite<'s>>,
}

/// A method, at the place where its code is written.
#[derive(Debug)]
pub struct MethodSite<'s> {
    /// The method.
    pub method: &'s Method,
    /// As a function: `get_user`, `r#type`.
    pub function: String,
    /// The comment in the .proto file, as lines of documentation.
    pub doc: Option<&'s str>,
    /// Types of the request.
    pub input: MessageSite,
    /// Types of the response.
    pub output: MessageSite,
}

/// The paths of a message's types.
#[derive(Debug)]
pub struct MessageSite {
    /// Its name: implements `Message`.
    pub name: String,
    /// A finished one.
    pub view: String,
    /// One being built.
    pub edit: String,
}

impl Writer<'_> {
    /// Has the code of a service written.
    pub(super) fn service(&self, text: &mut Text, index: u32, path: &[String], writer: &dyn ServiceWriter) {
        let service = &self.schema().services()[index as usize];
        let message = |class: u32| {
            let names = &self.names.messages[class as usize];
            let at = |name: &str| path_to(path, &names.path, name);
            MessageSite { name: at(&names.name), view: at(&names.view), edit: at(&names.edit) }
        };
        let mut functions = Taken::default();
        let methods = service.methods.iter().map(|method| MethodSite {
            method,
            function: functions.claim(identifier(&snake(&method.name))),
            doc: self.comments.get(&format!("{}.{}", service.name, method.name)),
            input: message(method.input),
            output: message(method.output),
        });
        let site = ServiceSite {
            schema: self.schema(),
            service,
            items: &self.names.services[index as usize].items,
            doc: self.comments.get(&service.name),
            descriptors: path_to(path, &[], "DESCRIPTORS"),
            methods: methods.collect(),
        };
        writer.write(text, &site);
    }
}
