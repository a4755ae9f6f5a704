//! What a server's services, methods and messages are: as the server says (reflection), or as .proto files say.

use super::RpcError;
use codec::compile::Compiler;
use codec::schema::{Method, Schema, Service, Types};
use std::path::PathBuf;
use std::sync::Arc;

/// Services and messages by name.
#[derive(Clone, Debug)]
pub struct Descriptions {
    types: Arc<Types>,
    set: Vec<u8>,
}

/// A method, as it is described.
#[derive(Clone, Debug)]
pub struct Described {
    /// What its messages are.
    pub types: Arc<Types>,
    /// `shop.Cart/Add`.
    pub path: String,
    /// Its streams, and the classes of its messages.
    pub method: Method,
}

impl Descriptions {
    /// Those of a serialised `google.protobuf.FileDescriptorSet`.
    ///
    /// # Errors
    /// The set is none, or of a kind that is not understood.
    pub fn of_set(set: &[u8]) -> Result<Descriptions, RpcError> {
        let schema =
            Schema::from_descriptor_set(set).map_err(|error| RpcError::Descriptors(error.to_string()))?;
        Ok(Descriptions { types: Arc::new(Types::new(schema)), set: set.to_vec() })
    }

    /// Those of .proto files, whose imports are in `includes`.
    ///
    /// # Errors
    /// The files are not right.
    pub fn of_files(files: &[PathBuf], includes: &[PathBuf]) -> Result<Descriptions, RpcError> {
        // As protoc: a file that is named by a path outside of the folders brings its own folder along.
        let around = files.iter().filter_map(|file| file.parent()).map(|folder| match folder.as_os_str() {
            name if name.is_empty() => PathBuf::from("."),
            _ => folder.to_owned(),
        });
        let all = includes.iter().cloned().chain(around);
        let compiler = all.fold(Compiler::new(), |compiler, folder| compiler.include(folder));
        let set = compiler.descriptor_set(files).map_err(|e| RpcError::Descriptors(e.to_string()))?;
        Descriptions::of_set(&set)
    }

    /// The descriptors, as they came.
    pub fn set(&self) -> &[u8] {
        &self.set
    }

    /// What they are made to, with what methods say of themselves.
    pub fn schema(&self) -> &Schema {
        self.types.schema()
    }

    /// A service by its full name, if there is one.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.types.schema().service(name)
    }

    /// The name of the file that a service is declared in.
    pub fn file_of(&self, service: &Service) -> &str {
        &self.types.schema().files()[service.file as usize].name
    }

    /// All methods, by path.
    fn methods(&self) -> Vec<Described> {
        let services = self.types.schema().services().iter();
        let mut methods: Vec<Described> = services
            .flat_map(|service| service.methods.iter().map(move |method| (service, method)))
            .map(|(service, method)| Described {
                types: Arc::clone(&self.types),
                path: format!("{}/{}", service.name, method.name),
                method: method.clone(),
            })
            .collect();
        methods.sort_by(|a, b| a.path.cmp(&b.path));
        methods
    }

    /// A method by a name such as `shop.Cart/Add`, `/shop.Cart/Add`, `Cart/Add`, or `Add` where only one service has it.
    ///
    /// # Errors
    /// There is none of that name, or several.
    pub fn method(&self, name: &str) -> Result<Described, RpcError> {
        let methods = self.methods();
        let wanted = name.trim_start_matches('/');
        let mut ends: Vec<&Described> =
            methods.iter().filter(|method| is_end_of(wanted, &method.path)).collect();
        if let Some(exact) = methods.iter().find(|method| method.path == wanted) {
            ends = vec![exact];
        }
        match ends[..] {
            [method] => Ok(method.clone()),
            [] => {
                let all: Vec<String> = methods.into_iter().map(|method| method.path).collect();
                Err(RpcError::NoMethod { name: name.to_owned(), nearest: nearest(wanted, &all) })
            }
            _ => Err(RpcError::Ambiguous {
                name: name.to_owned(),
                all: ends.into_iter().map(|method| method.path.clone()).collect(),
            }),
        }
    }
}

/// Whether `name` is a path's end that begins where a name begins.
fn is_end_of(name: &str, path: &str) -> bool {
    let before = path.strip_suffix(name);
    !name.is_empty() && before.is_some_and(|before| before.ends_with(['.', '/']))
}

/// The names that are most like `name`, the nearest first; at most three.
pub fn nearest(name: &str, all: &[String]) -> Vec<String> {
    let lower = name.to_lowercase();
    let likeness = |other: &str| {
        let other = other.to_lowercase();
        let last = other.rsplit(['/', '.']).next().unwrap_or(&other);
        strsim::jaro_winkler(&lower, &other).max(strsim::jaro_winkler(&lower, last))
    };
    let mut rated: Vec<(f64, &String)> = all.iter().map(|other| (likeness(other), other)).collect();
    rated.retain(|(likeness, _)| *likeness > 0.7);
    rated.sort_by(|a, b| b.0.total_cmp(&a.0));
    rated.into_iter().take(3).map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Descriptions {
        let text = "syntax = \"proto3\"; package shop; message M {} \
                    service Cart { rpc Add(M) returns (M); rpc Drop(M) returns (M); } service Till { rpc Add(M) returns (M); }";
        let set = Compiler::new().source("shop.proto", text).descriptor_set(&["shop.proto"]);
        Descriptions::of_set(&set.expect("a right file")).expect("descriptors")
    }

    #[test]
    fn methods_are_found_by_the_end_of_their_path() {
        let shop = shop();
        for name in ["shop.Cart/Drop", "/shop.Cart/Drop", "Cart/Drop", "Drop"] {
            assert_eq!(shop.method(name).expect(name).path, "shop.Cart/Drop", "{name}");
        }
        assert!(matches!(shop.method("Add"), Err(RpcError::Ambiguous { all, .. }) if all.len() == 2));
        assert!(matches!(shop.method("rop"), Err(RpcError::NoMethod { .. })));
        assert!(matches!(shop.method(""), Err(RpcError::NoMethod { .. })));
    }

    #[test]
    fn an_error_names_what_was_meant() {
        let Err(RpcError::NoMethod { nearest, .. }) = shop().method("shop.Cart/Ad") else {
            panic!("no such method")
        };
        assert_eq!(nearest.first().map(String::as_str), Some("shop.Cart/Add"));
        let Err(RpcError::NoMethod { nearest, .. }) = shop().method("drp") else { panic!("no such method") };
        assert_eq!(nearest, ["shop.Cart/Drop"]);
        let Err(RpcError::NoMethod { nearest, .. }) = shop().method("xyzzy") else {
            panic!("no such method")
        };
        assert_eq!(nearest, [""; 0]);
    }
}
