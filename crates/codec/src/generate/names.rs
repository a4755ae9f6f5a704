//! What things are called in Rust, and in which module they are.

use super::service::ServiceWriter;
use crate::schema::{Message, Schema};
use std::collections::{BTreeMap, HashSet};

/// Whether a message has a type of its own: the entries of maps and the extensions of other messages have none.
fn is_generated(item: &Message) -> bool {
    !item.map_entry && item.extends.is_none()
}

/// The names of a message's types.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageNames {
    pub path: Vec<String>,
    pub name: String,
    pub view: String,
    pub edit: String,
    /// Of the module of what is declared in it.
    pub module: Vec<String>,
    /// Of the enums of its oneofs, in that module.
    pub oneofs: Vec<String>,
}

/// The name of an enum's type.
#[derive(Clone, Debug, Default)]
pub(super) struct EnumNames {
    pub path: Vec<String>,
    pub name: String,
}

/// The names of what is written for a service.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceNames {
    pub items: Vec<String>,
}

/// A module and what is in it.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub doc: String,
    pub messages: Vec<u32>,
    pub enums: Vec<u32>,
    pub oneofs: Vec<(u32, usize)>,
    pub services: Vec<u32>,
    pub modules: BTreeMap<String, Module>,
    taken: Taken,
}

#[derive(Debug)]
pub(super) struct Names {
    pub messages: Vec<MessageNames>,
    pub enums: Vec<EnumNames>,
    pub services: Vec<ServiceNames>,
    pub root: Module,
}

/// Names in use.
#[derive(Clone, Debug, Default)]
pub struct Taken(HashSet<String>);

impl Taken {
    /// `name`, with as many underscores as make it new.
    pub fn claim(&mut self, name: String) -> String {
        let mut name = name;
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

/// Types that generated code uses by their short names.
const PRELUDE: [&str; 6] = ["Option", "Result", "Some", "None", "Ok", "Err"];

impl Names {
    pub(super) fn of(schema: &Schema, services: Option<&dyn ServiceWriter>) -> Names {
        let mut names = Names {
            messages: vec![MessageNames::default(); schema.messages().len()],
            enums: vec![EnumNames::default(); schema.enums().len()],
            services: vec![ServiceNames::default(); schema.services().len()],
            root: Module::default(),
        };
        names.name_types(schema);
        names.name_derived(schema);
        if let Some(writer) = services {
            names.name_services(schema, writer);
        }
        names.root.name_packages("");
        names
    }

    /// First what is named in the .proto files, so that these names stay as they are if they can.
    fn name_types(&mut self, schema: &Schema) {
        for (index, item) in schema.enums().iter().enumerate() {
            let (path, name) = self.place(schema, item.file, &item.name);
            let module = self.root.at(&path);
            module.enums.push(index as u32);
            let name = module.taken.claim(name);
            self.enums[index] = EnumNames { path, name };
        }
        for (index, item) in schema.messages().iter().enumerate().filter(|(_, item)| is_generated(item)) {
            let (path, name) = self.place(schema, item.file, &item.name);
            let module = self.root.at(&path);
            module.messages.push(index as u32);
            self.messages[index].name = module.taken.claim(name);
            self.messages[index].path = path;
        }
    }

    /// Then what the generator adds.
    fn name_derived(&mut self, schema: &Schema) {
        for (index, item) in schema.messages().iter().enumerate().filter(|(_, item)| is_generated(item)) {
            let names = &mut self.messages[index];
            let module = self.root.at(&names.path);
            let plain = names.name.trim_end_matches('_');
            names.view = module.taken.claim(format!("{plain}View"));
            names.edit = module.taken.claim(format!("{plain}Mut"));
            let own = item.name.rsplit('.').next().expect("a name has a last part");
            names.module = [names.path.as_slice(), &[module_name(own)]].concat();
            for (number, oneof) in item.oneofs.iter().enumerate() {
                let module = self.root.at(&names.module);
                module.oneofs.push((index as u32, number));
                names.oneofs.push(module.taken.claim(type_name(&oneof.name)));
            }
            if let Some(module) = self.root.find(&names.module)
                && module.doc.is_empty()
            {
                module.doc = format!("What is declared in `{}`.", item.name);
            }
        }
    }

    /// Then what another crate adds.
    fn name_services(&mut self, schema: &Schema, writer: &dyn ServiceWriter) {
        for (index, item) in schema.services().iter().enumerate() {
            let (path, name) = self.place(schema, item.file, &item.name);
            let module = self.root.at(&path);
            module.services.push(index as u32);
            let items = writer.items(&name).into_iter();
            self.services[index].items = items.map(|item| module.taken.claim(item)).collect();
        }
    }

    /// The module that an element is in, and its name there.
    fn place(&self, schema: &Schema, file: u32, full: &str) -> (Vec<String>, String) {
        let package = &schema.files()[file as usize].package;
        let inside = full.strip_prefix(package.as_str()).unwrap_or(full).trim_start_matches('.');
        let (around, own) = inside.rsplit_once('.').unwrap_or(("", inside));
        let parts = package.split('.').chain(around.split('.')).filter(|part| !part.is_empty());
        (parts.map(module_name).collect(), type_name(own))
    }
}

impl Module {
    /// The module at that path, made if there is none.
    fn at(&mut self, path: &[String]) -> &mut Module {
        path.iter().fold(self, |module, part| module.modules.entry(part.clone()).or_default())
    }

    fn find(&mut self, path: &[String]) -> Option<&mut Module> {
        path.iter().try_fold(self, |module, part| module.modules.get_mut(part))
    }

    /// The modules that are not a message's are packages.
    fn name_packages(&mut self, around: &str) {
        for (name, module) in &mut self.modules {
            let full = if around.is_empty() { name.clone() } else { format!("{around}.{name}") };
            if module.doc.is_empty() {
                module.doc = format!("Package `{full}`.");
            }
            module.name_packages(&full);
        }
    }
}

/// The way from one module to an item in another.
pub(super) fn path_to(from: &[String], to: &[String], item: &str) -> String {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let up = from[common..].iter().map(|_| "super");
    let down = to[common..].iter().map(String::as_str);
    up.chain(down).chain([item]).collect::<Vec<_>>().join("::")
}

/// `photo_size` and `photoSize` as a type: `PhotoSize`.
pub(super) fn type_name(name: &str) -> String {
    let mut out = String::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let mut rest = part.chars();
        out.extend(rest.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(rest.as_str());
    }
    if out.is_empty() || out.starts_with(|first: char| first.is_ascii_digit()) {
        out.insert(0, 'T');
    }
    if PRELUDE.contains(&out.as_str()) || out == "Self" {
        out.push('_');
    }
    out
}

/// `PhotoSize` as a module: `photo_size`.
fn module_name(name: &str) -> String {
    identifier(&snake(name))
}

/// In lower case, with one underscore where a word begins.
pub(super) fn snake(name: &str) -> String {
    let words = lower(name);
    let words: Vec<&str> = words.split('_').filter(|word| !word.is_empty()).collect();
    let joined = words.join("_");
    if joined.is_empty() || joined.starts_with(|first: char| first.is_ascii_digit()) {
        return format!("n{joined}");
    }
    joined
}

fn lower(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, &letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let begins = before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            || before.is_some_and(|c| c.is_ascii_uppercase())
                && after.is_some_and(|c| c.is_ascii_lowercase());
        if letter.is_ascii_uppercase() && begins {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// In upper case, as a constant.
pub(super) fn constant(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    if name.starts_with(|first: char| first.is_ascii_digit()) || name.chars().all(|c| c == '_') {
        format!("N{name}")
    } else {
        name
    }
}

/// A name that Rust takes.
pub(super) fn identifier(name: &str) -> String {
    match name {
        "self" | "super" | "crate" | "_" => format!("{name}_"),
        _ if KEYWORDS.contains(&name) => format!("r#{name}"),
        _ => name.to_owned(),
    }
}

/// Keywords of all editions, but those that cannot be raw.
const KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
