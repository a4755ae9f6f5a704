//! What a server's services, methods and messages are: as the server says (reflection), or as .proto files say.

use super::RpcError;
use codec::compile::Compiler;
use codec::schema::Schema;
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use std::path::PathBuf;

/// Services and messages by name.
#[derive(Clone, Debug)]
pub struct Descriptions {
    pool: DescriptorPool,
    schema: Schema,
}

impl Descriptions {
    /// Those of a serialised `google.protobuf.FileDescriptorSet`.
    ///
    /// # Errors
    /// The set is none, or of a kind that is not understood (editions).
    pub fn of_set(set: &[u8]) -> Result<Descriptions, RpcError> {
        let pool = DescriptorPool::decode(set).map_err(|e| RpcError::Descriptors(e.to_string()))?;
        let schema = Schema::from_descriptor_set(set).map_err(|e| RpcError::Descriptors(e.to_string()))?;
        Ok(Descriptions { pool, schema })
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

    /// The descriptors.
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// The same, with what methods say of themselves.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// All services, by name.
    pub fn services(&self) -> Vec<ServiceDescriptor> {
        let mut services: Vec<ServiceDescriptor> = self.pool.services().collect();
        services.sort_by(|a, b| a.full_name().cmp(b.full_name()));
        services
    }

    /// A method by a name such as `shop.Cart/Add`, `/shop.Cart/Add`, `Cart/Add`, or `Add` where only one service has it.
    ///
    /// # Errors
    /// There is none of that name, or several.
    pub fn method(&self, name: &str) -> Result<MethodDescriptor, RpcError> {
        let methods: Vec<MethodDescriptor> =
            self.services().iter().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
        let wanted = name.trim_start_matches('/');
        let mut ends: Vec<&MethodDescriptor> =
            methods.iter().filter(|method| is_end_of(wanted, &short_path(method))).collect();
        if let Some(exact) = methods.iter().find(|method| short_path(method) == wanted) {
            ends = vec![exact];
        }
        match ends[..] {
            [method] => Ok(method.clone()),
            [] => {
                let all: Vec<String> = methods.iter().map(short_path).collect();
                Err(RpcError::NoMethod { name: name.to_owned(), nearest: nearest(wanted, &all) })
            }
            _ => Err(RpcError::Ambiguous {
                name: name.to_owned(),
                all: ends.into_iter().map(short_path).collect(),
            }),
        }
    }
}

/// `shop.Cart/Add`.
pub fn short_path(method: &MethodDescriptor) -> String {
    format!("{}/{}", method.parent_service().full_name(), method.name())
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
            assert_eq!(short_path(&shop.method(name).expect(name)), "shop.Cart/Drop", "{name}");
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
