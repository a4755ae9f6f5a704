//! Families of messages: those of HyperProtoBench, from its files or drawn by the model's profiles, and those of five services of DeathStarBench.
//!
//! A drawn message has the fields, objects, depth and lengths of a [`Shape`]; every object is of a type of its own, whose fields are singular, so that
//! what the codec counts can be held against what the model reckons of the same shape.

use super::cpp;
use super::tree::{Tree, Value};
use base::Prng;
use codec::compile::Compiler;
use codec::schema::Schema;
use model::platform::{LoadError, Platform, Platforms};
use model::system::rpcacc::messages::{all_benches, deathstarbench};
use model::system::rpcacc::shape::Shape;
use std::path::Path;
use std::sync::Arc;

/// A message with its schema.
#[derive(Clone, Debug)]
pub struct Message {
    /// For rows.
    pub name: String,
    /// Of its class.
    pub schema: Arc<Schema>,
    /// Its values.
    pub tree: Tree,
}

impl Message {
    /// Its fields by kind, as the model counts them.
    pub fn shape(&self) -> Shape {
        let text = |value: &Value| match value {
            Value::Bytes(bytes) => Some(bytes.len() as u64),
            _ => None,
        };
        Shape {
            name: self.name.clone(),
            objects: self.tree.objects() as u64,
            depth: self.tree.depth() as u64,
            scalars: self.tree.values().filter(|value| matches!(value, Value::Scalar(_))).count() as u64,
            strings: self.tree.values().filter_map(text).collect(),
        }
    }
}

/// Messages that are shown together.
#[derive(Clone, Debug)]
pub struct Family {
    /// `bench0` to `bench5`, or a service.
    pub name: String,
    /// Ten of a bench; a service's request and reply.
    pub messages: Vec<Message>,
}

const BENCHES: usize = 6;

/// HyperProtoBench's messages from a checkout: `DIR/benchN/benchmark.proto` and `.inc`.
///
/// # Errors
/// A file that cannot be read or is of another form; where, and what to do.
pub fn from_checkout(folder: &Path) -> Result<Vec<Family>, String> {
    let mut families = Vec::new();
    for number in 0..BENCHES {
        let name = format!("bench{number}");
        let inside = folder.join(&name);
        if !inside.is_dir() {
            continue;
        }
        let schema = Compiler::new().include(&inside).compile(&["benchmark.proto"]);
        let schema =
            Arc::new(schema.map_err(|why| format!("{}: {why}", inside.join("benchmark.proto").display()))?);
        let path = inside.join("benchmark.inc");
        let text = std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let found = cpp::messages(&text, &schema).map_err(|why| format!("{}: {why}", path.display()))?;
        if found.is_empty() {
            return Err(format!("{}: no function sets a message's fields", path.display()));
        }
        let message = |(name, tree)| Message { name, schema: Arc::clone(&schema), tree };
        families.push(Family { name, messages: found.into_iter().map(message).collect() });
    }
    if families.is_empty() {
        let what = "a checkout of HyperProtoBench has folders bench0 to bench5 with benchmark.proto and benchmark.inc";
        return Err(format!("{}: {what}", folder.display()));
    }
    Ok(families)
}

/// What is made of the shipped platform's numbers.
pub(super) fn shipped<R>(of: fn(&Platform) -> Result<R, LoadError>) -> R {
    let platform = Platforms::shipped().named("pcie-rpc-accelerator").expect("it is shipped");
    of(&platform).expect("it is complete")
}

/// Messages drawn by the model's profiles of HyperProtoBench.
pub fn drawn() -> Vec<Family> {
    let family = |(name, shapes): (String, Vec<Shape>)| {
        let text: String = shapes.iter().map(proto).collect();
        let schema = Arc::new(compiled(&name, &format!("syntax = \"proto3\";\n{text}")));
        let message = |shape: &Shape| Message {
            name: shape.name.clone(),
            schema: Arc::clone(&schema),
            tree: tree(&schema, shape),
        };
        Family { name, messages: shapes.iter().map(message).collect() }
    };
    shipped(all_benches).into_iter().map(family).collect()
}

fn compiled(name: &str, text: &str) -> Schema {
    let file = format!("{name}.proto");
    Compiler::new().source(&file, text).compile(&[&file]).expect("what this program writes is a .proto file")
}

/// The type of a shape's object; 0 is the root.
fn type_of(shape: &Shape, object: u64) -> String {
    if object == 0 { shape.name.clone() } else { format!("{}O{object}", shape.name) }
}

/// The object around an object: a chain as deep as the shape, and the others below its members, the deepest left out.
fn parent(shape: &Shape, object: u64) -> u64 {
    let chain = shape.depth.min(shape.objects);
    if object < chain { object - 1 } else { object % (chain - 1).max(1) }
}

fn children(shape: &Shape, of: u64) -> impl Iterator<Item = u64> {
    (1..shape.objects).filter(move |object| parent(shape, *object) == of)
}

/// What belongs to an object when `count` things are dealt to all in turn.
fn dealt(shape: &Shape, count: u64, to: u64) -> impl Iterator<Item = u64> + use<> {
    (to..count).step_by(shape.objects as usize)
}

fn proto(shape: &Shape) -> String {
    let mut text = String::new();
    for object in 0..shape.objects {
        let mut fields = Vec::new();
        fields.extend(dealt(shape, shape.scalars, object).map(|at| format!("uint32 n{at}")));
        fields.extend(dealt(shape, shape.strings.len() as u64, object).map(|at| format!("string s{at}")));
        fields.extend(children(shape, object).map(|child| format!("{} o{child}", type_of(shape, child))));
        let fields: String =
            (1..).zip(fields).map(|(number, field)| format!(" {field} = {number};")).collect();
        text += &format!("message {} {{{fields} }}\n", type_of(shape, object));
    }
    text
}

fn tree(schema: &Schema, shape: &Shape) -> Tree {
    let class = |object| schema.class(&type_of(shape, object)).expect("every object has a type");
    let mut tree = Tree::new(class(0));
    // Nodes of objects: a parent has a lower number.
    let mut nodes = vec![0];
    let mut prng = Prng::new(shape.wire());
    for object in 0..shape.objects {
        let find = |class: u32, name: &str| {
            let message = &schema.messages()[class as usize];
            let index = message.index(name).expect("its type has the field");
            (index, &message.fields[index])
        };
        if object > 0 {
            let around = nodes[parent(shape, object) as usize];
            let (index, field) = find(tree.class(around), &format!("o{object}"));
            nodes.push(tree.child(around, index, field).expect("profiles are not that deep"));
        }
        let node = nodes[object as usize];
        for at in dealt(shape, shape.scalars, object) {
            let (index, field) = find(tree.class(node), &format!("n{at}"));
            // Two or three bytes on the wire, as most are.
            tree.put(node, index, field, Value::Scalar(0x80 + prng.below(0x1f_ff00)));
        }
        for at in dealt(shape, shape.strings.len() as u64, object) {
            let (index, field) = find(tree.class(node), &format!("s{at}"));
            tree.put(node, index, field, Value::Bytes(letters(&mut prng, shape.strings[at as usize])));
        }
    }
    tree
}

fn letters(prng: &mut Prng, count: u64) -> Vec<u8> {
    (0..count).map(|_| b'a' + prng.below(26) as u8).collect()
}

/// The services' messages: names and fields ours, after the interface of the benchmark's social network.
const SERVICES: &str = include_str!("../../proto/social.proto");

/// Elements of repeated fields, by message and field: what the lengths of `model::system::rpcacc::messages` stand for.
const ELEMENTS: [(&str, usize); 9] = [
    ("carrier", 1),
    ("urls", 3),
    ("followers", 39),
    ("media_ids", 3),
    ("media_types", 2),
    ("mentions", 2),
    ("media", 2),
    ("shortened", 2),
    ("shortened_all", 3),
];

/// Requests and replies of the five services, with the lengths that the model has.
pub fn services() -> Vec<Family> {
    let schema = Arc::new(compiled("social", SERVICES));
    let family = |service: model::system::rpcacc::messages::Service| {
        let message = |kind: &str, shape: &Shape| {
            let class =
                schema.class(&format!("social.{}{kind}", service.name)).expect("every service has both");
            let mut tree = Tree::new(class);
            let mut lengths = shape.strings.iter().copied();
            let mut prng = Prng::new(shape.wire());
            fill(&schema, &mut tree, 0, &mut lengths, &mut prng);
            assert!(lengths.next().is_none(), "every length of {}'s {kind} has a field", service.name);
            Message { name: kind.to_lowercase(), schema: Arc::clone(&schema), tree }
        };
        let messages = vec![message("Request", &service.request), message("Reply", &service.reply)];
        Family { name: service.name.into(), messages }
    };
    shipped(deathstarbench).into_iter().map(family).collect()
}

/// Gives every field of a node a value; strings are as long as `lengths` says, in the order of the fields.
fn fill(
    schema: &Schema,
    tree: &mut Tree,
    node: usize,
    lengths: &mut impl Iterator<Item = u64>,
    prng: &mut Prng,
) {
    let message = &schema.messages()[tree.class(node) as usize];
    for (index, field) in message.fields.iter().enumerate() {
        let named = ELEMENTS.iter().find(|(name, _)| *name == field.name);
        let count = if field.is_repeated() { named.map_or(1, |(_, count)| *count) } else { 1 };
        for _ in 0..count {
            if field.message.is_some() {
                let child = tree.child(node, index, field).expect("these messages are flat");
                fill(schema, tree, child, lengths, prng);
            } else if field.kind.is_scalar() {
                tree.put(node, index, field, Value::Scalar(0x80 + prng.below(0x1f_ff00)));
            } else {
                let length = lengths.next().expect("the model has a length for every string");
                tree.put(node, index, field, Value::Bytes(letters(prng, length)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_messages_have_the_shapes_that_they_were_drawn_by() {
        for ((name, shapes), family) in shipped(all_benches).into_iter().zip(drawn()) {
            assert_eq!((name, shapes.len()), (family.name.clone(), family.messages.len()));
            for (mut shape, message) in shapes.into_iter().zip(&family.messages) {
                let mut seen = message.shape();
                shape.strings.sort_unstable();
                seen.strings.sort_unstable();
                assert_eq!(seen, shape, "{}", family.name);
                let wire = message.tree.wire(&message.schema).len() as f64;
                assert!((wire / shape.wire() as f64 - 1.0).abs() < 0.35, "{wire} {}", shape.wire());
            }
        }
    }

    #[test]
    fn services_have_the_strings_and_objects_that_the_model_has() {
        for (service, family) in shipped(deathstarbench).iter().zip(services()) {
            for (shape, message) in [&service.request, &service.reply].into_iter().zip(&family.messages) {
                let (mut seen, mut shape) = (message.shape(), shape.clone());
                seen.strings.sort_unstable();
                shape.strings.sort_unstable();
                assert_eq!((seen.strings, seen.objects), (shape.strings, shape.objects), "{}", family.name);
                assert!(seen.scalars.abs_diff(shape.scalars) <= 1, "{} {}", family.name, seen.scalars);
            }
        }
    }

    #[test]
    fn a_folder_that_is_no_checkout_says_what_one_has() {
        let said = from_checkout(Path::new("/nowhere")).expect_err("there is none");
        assert!(said.contains("bench0") && said.contains("benchmark.inc"));
    }
}
