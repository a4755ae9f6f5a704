//! Protobuf driven by one flat schema table, with every field's bytes placed in host or accelerator memory.
//!
//! | module | one word |
//! |---|---|
//! | [`place`] | the table in use, replaced while messages flow; when a field's place follows the program |
//! | [`table`] | the flat table that drives everything: 64-byte lines, 16-byte field entries, one target bit per field |
//! | [`schema`] | descriptor sets in, names and the table out |
//! | `compile` | .proto files to schemas; with the feature of that name |
//! | [`memory`] | the two memories: regions of 4 KiB chunks, free lists, arenas, addresses |
//! | [`crossing`] | the one trait through which everything crosses between the memories, counted |
//! | [`copy`] | asynchronous copies of long fields |
//! | [`decode`] | wire bytes to objects: lanes and the sinks they write to |
//! | [`encode`] | objects to wire bytes: one walk, three strategies |
//! | [`object`] | what a decoded message looks like in memory, reading it, and writing it |
//! | [`mod@unit`] | compute units: descriptors in, notifications out, kernels exchanged while tasks flow |
//! | [`text`] | messages as JSON and in protobuf's text format |
//! | [`typed`] | what generated accessors are made of |
//! | `generate`, `build` | accessors for a schema, and the build script that writes them; with feature `compile` |
//! | [`wire`] | reading the wire format from a slice |
//!
//! The mechanisms are those of RPCAcc (`docs/design/002-codec.md` maps them, section by section); the hardware of that
//! system is a second *place* here: a thread with a memory of its own, behind rings, and one narrow trait that counts what
//! crosses. The crate knows nothing of sockets, services or deadlines.

#[cfg(feature = "compile")]
pub mod build;
#[cfg(feature = "compile")]
pub mod compile;
pub mod copy;
pub mod crossing;
pub mod decode;
pub mod encode;
#[cfg(feature = "compile")]
pub mod generate;
pub mod memory;
pub mod object;
pub mod place;
pub mod schema;
pub mod table;
pub mod text;
pub mod typed;
pub mod unit;
pub mod wire;

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("objects hold little-endian values and 64-bit addresses");
