//! The files of descriptor sets as they came, found by what they declare: what server reflection answers from.
//!
//! Bounds: those of a descriptor set, for all sets together; a full name has [`MAX_NAME`] bytes.
//!
//! Errors: [`SchemaError`], as of a [`Schema`](super::Schema); imports that are not there are left out, since whoever asks learns of them by name.

use super::descriptor::{self, Enum, Field, File, Message};
use super::{MAX_NAME, MAX_SET, Problem, SchemaError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Files by name, by the symbols that they declare, and by the extensions in them.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    files: Vec<Entry>,
    by_name: HashMap<String, usize>,
    /// By the full name of what is declared.
    by_symbol: HashMap<String, usize>,
    /// By the full name of the type that is extended, and number.
    by_extension: HashMap<String, BTreeMap<i32, usize>>,
    services: BTreeSet<String>,
}

/// A file.
#[derive(Clone, Debug)]
struct Entry {
    imports: Vec<String>,
    /// A serialised `google.protobuf.FileDescriptorProto`.
    bytes: Box<[u8]>,
}

impl Catalog {
    /// Of these serialised `google.protobuf.FileDescriptorSet`s. Where several have a file of one name, the first one's counts.
    ///
    /// # Errors
    /// A set is none, or too large.
    pub fn of(sets: &[&[u8]]) -> Result<Catalog, SchemaError> {
        let (mut catalog, mut budget) = (Catalog::default(), descriptor::Budget::default());
        let len = sets.iter().map(|set| set.len()).sum();
        if len > MAX_SET {
            return Err(Problem::TooMany("bytes of descriptors", len, MAX_SET).at(""));
        }
        for set in sets {
            for (file, bytes) in descriptor::read_files(set, &mut budget)? {
                catalog.add(&file, bytes).map_err(|error| error.in_file(&file.name))?;
            }
        }
        Ok(catalog)
    }

    fn add(&mut self, file: &File, bytes: &[u8]) -> Result<(), SchemaError> {
        let index = self.files.len();
        if self.by_name.contains_key(&file.name) {
            return Ok(());
        }
        self.by_name.insert(file.name.clone(), index);
        self.files.push(Entry { imports: file.imports.clone(), bytes: bytes.into() });
        let mut scope = Scope { catalog: self, file: index };
        let package = &file.package;
        file.messages.iter().try_for_each(|message| scope.message(package, message))?;
        file.enums.iter().try_for_each(|declared| scope.enumeration(package, declared))?;
        file.extensions.iter().try_for_each(|extension| scope.extension(package, extension))?;
        for service in &file.services {
            let name = scope.symbol(package, &service.name)?;
            service.methods.iter().try_for_each(|method| scope.symbol(&name, &method.name).map(drop))?;
            scope.catalog.services.insert(name);
        }
        Ok(())
    }

    /// Full names of all services, in order.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.services.iter().map(String::as_str)
    }

    /// Whether there is a service of this full name.
    pub fn has_service(&self, name: &str) -> bool {
        self.services.contains(name)
    }

    /// The file of this name.
    pub fn file(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The file that declares a message, enum, value of an enum, field, oneof, extension, service or method of this full name.
    pub fn file_of_symbol(&self, name: &str) -> Option<usize> {
        self.by_symbol.get(name).copied()
    }

    /// The file that declares the extension of this number of the message of this full name.
    pub fn file_of_extension(&self, message: &str, number: i32) -> Option<usize> {
        self.by_extension.get(message)?.get(&number).copied()
    }

    /// Numbers of the extensions of the message of this full name, ascending; none: there is no such message.
    pub fn extension_numbers(&self, message: &str) -> Option<Vec<i32>> {
        match self.by_extension.get(message) {
            Some(extensions) => Some(extensions.keys().copied().collect()),
            None => self.by_symbol.contains_key(message).then(Vec::new),
        }
    }

    /// A file and all that it imports, over however many files; the file first.
    pub fn with_imports(&self, file: usize) -> Vec<usize> {
        let (mut found, mut at) = (vec![file], 0);
        let mut known = BTreeSet::from([file]);
        while let Some(entry) = found.get(at).and_then(|&file| self.files.get(file)) {
            found.extend(
                entry.imports.iter().filter_map(|name| self.file(name)).filter(|&one| known.insert(one)),
            );
            at += 1;
        }
        found
    }

    /// A file as it came: a serialised `google.protobuf.FileDescriptorProto`.
    pub fn bytes(&self, file: usize) -> &[u8] {
        &self.files[file].bytes
    }
}

/// A file whose declarations are entered.
struct Scope<'c> {
    catalog: &'c mut Catalog,
    file: usize,
}

impl Scope<'_> {
    /// Its full name.
    fn symbol(&mut self, scope: &str, name: &str) -> Result<String, SchemaError> {
        let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        if full.len() > MAX_NAME {
            return Err(Problem::Name.at(""));
        }
        self.catalog.by_symbol.entry(full.clone()).or_insert(self.file);
        Ok(full)
    }

    fn message(&mut self, scope: &str, message: &Message) -> Result<(), SchemaError> {
        let name = self.symbol(scope, &message.name)?;
        for member in
            message.fields.iter().map(|field| &field.name).chain(message.oneofs.iter().map(|one| &one.name))
        {
            self.symbol(&name, member)?;
        }
        message.nested.iter().try_for_each(|nested| self.message(&name, nested))?;
        message.enums.iter().try_for_each(|declared| self.enumeration(&name, declared))?;
        message.extensions.iter().try_for_each(|extension| self.extension(&name, extension))
    }

    /// Its values are named as what is beside it.
    fn enumeration(&mut self, scope: &str, declared: &Enum) -> Result<(), SchemaError> {
        self.symbol(scope, &declared.name)?;
        declared.values.iter().try_for_each(|(value, _)| self.symbol(scope, value).map(drop))
    }

    fn extension(&mut self, scope: &str, extension: &Field) -> Result<(), SchemaError> {
        self.symbol(scope, &extension.name)?;
        let extended = extension.extendee.trim_start_matches('.').to_owned();
        let numbers = self.catalog.by_extension.entry(extended).or_default();
        numbers.entry(extension.number).or_insert(self.file);
        Ok(())
    }
}
