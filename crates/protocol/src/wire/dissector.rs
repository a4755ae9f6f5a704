//! A dissector for Wireshark, written from the same tables as the code, so that it cannot lag behind.
//!
//! It finds packets by their magic on any UDP port. It does not check hash and checksum: the Lua of older Wiresharks has no
//! 64-bit integers. Tests: `tests/dissector.rs` has tshark read packets with it.

use super::{
    Control, FIELDS, Field, Flags, Form, HEADER, Kind, MAGIC, Proof, REPLY, Status, Verb, fields::at,
};
use crate::coherence::moved::Moved;
use std::fmt::Write as _;

const HEAD: &str = r#"-- The in-network packet of millrace, for Wireshark and tshark. Written by `millrace wire dissector`: do not edit.
-- Put it where Help > About Wireshark > Folders says "Personal Lua Plugins", or run tshark -X lua_script:FILE.

local mlrinc = Proto("mlrinc", "millrace in-network packet")
local f = mlrinc.fields
"#;

/// Of each home that has moved, in the order of the wire: name, class of field, meaning.
const MOVED: [(&str, &str, &str); 4] = [
    ("home", "uint16", "the home that has moved"),
    ("port", "uint16", "where it is since"),
    ("epoch", "uint32", "of the order"),
    ("address", "ipv6", "where it is since; of IPv4 the mapped one"),
];

/// The text of the dissector, in Lua.
pub fn dissector() -> String {
    let mut lua = String::from(HEAD);
    names(&mut lua);
    lua.push('\n');
    FIELDS.iter().for_each(|field| declare(field, &mut lua));
    for (name, meaning) in
        [("key", "the key"), ("value", "the value"), ("proof", "who wrote it"), ("padding", "says nothing")]
    {
        line(
            &mut lua,
            format_args!(r#"f.{name} = ProtoField.bytes("mlrinc.{name}", "{name}", base.NONE, "{meaning}")"#),
        );
    }
    for (name, class, meaning) in MOVED {
        let rest = if class == "ipv6" { String::new() } else { "base.DEC, nil, nil, ".to_owned() };
        line(
            &mut lua,
            format_args!(
                r#"f.moved_{name} = ProtoField.{class}("mlrinc.moved.{name}", "{name}", {rest}"{meaning}")"#
            ),
        );
    }
    lua.push_str("\nlocal function header(root, buffer)\n");
    FIELDS.iter().for_each(|field| show(field, &mut lua));
    lua.push_str("end\n");
    body(&mut lua);
    lua
}

fn line(lua: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(lua, "{text}").expect("a string takes what is written");
}

/// What the codes are called.
fn names(lua: &mut String) {
    let verbs = Verb::ALL.iter().map(|verb| (verb.code(), verb.name().to_string()));
    let replies = Verb::ALL.iter().map(|verb| (verb.code() | REPLY, format!("{} reply", verb.name())));
    let controls = Control::ALL.iter().map(|control| (control.code(), control.name().to_string()));
    list(lua, "opcode", &mut verbs.chain(replies).chain(controls));
    list(lua, "status", &mut Status::ALL.iter().map(|status| (status.code(), status.name().to_string())));
    list(lua, "kind", &mut Kind::ALL.iter().map(|kind| (kind.code(), kind.name().to_string())));
    for (flag, name) in Flags::NAMED {
        let name = name.to_lowercase();
        let bits = flag.bits();
        line(
            lua,
            format_args!(
                r#"f.flag_{name} = ProtoField.bool("mlrinc.flags.{name}", "{name}", 16, {{"set", "not set"}}, {bits:#06x})"#
            ),
        );
    }
}

fn list(lua: &mut String, of: &str, codes: &mut dyn Iterator<Item = (u8, String)>) {
    line(lua, format_args!("\nlocal {of}_names = {{"));
    for (code, name) in codes {
        line(lua, format_args!("  [{code:#04x}] = \"{name}\","));
    }
    lua.push_str("}\n");
}

fn declare(field: &Field, lua: &mut String) {
    let Field { name, length, meaning, .. } = *field;
    let (class, base) = match field.form {
        Form::Number | Form::Network => (format!("uint{}", 8 * length), "base.DEC"),
        Form::Pattern => (format!("uint{}", 8 * length), "base.HEX"),
        Form::Row { width } => (format!("uint{}", 8 * width), "base.DEC"),
        Form::Bytes => ("bytes".into(), "base.NONE"),
        Form::Address => ("ipv6".into(), ""),
    };
    let names = match field.offset {
        at::OPCODE | at::STATUS | at::KIND => format!("{name}_names"),
        _ => "nil".into(),
    };
    let meaning = meaning.replace('"', "\\\"");
    let rest = match field.form {
        Form::Bytes => format!("{base}, \"{meaning}\""),
        Form::Address => format!("\"{meaning}\""),
        _ => format!("{base}, {names}, nil, \"{meaning}\""),
    };
    line(lua, format_args!(r#"f.{name} = ProtoField.{class}("mlrinc.{name}", "{name}", {rest})"#));
}

fn show(field: &Field, lua: &mut String) {
    let Field { name, offset, length, .. } = *field;
    let (add, width) = match field.form {
        Form::Number | Form::Pattern => ("add_le", length),
        Form::Row { width } => ("add_le", width),
        Form::Network | Form::Bytes | Form::Address => ("add", length),
    };
    for offset in (offset..offset + length).step_by(width) {
        line(lua, format_args!("  root:{add}(f.{name}, buffer({offset}, {width}))"));
    }
    if offset == at::FLAGS {
        for (_, flag) in Flags::NAMED {
            let flag = flag.to_lowercase();
            line(lua, format_args!("  root:add_le(f.flag_{flag}, buffer({offset}, {length}))"));
        }
    }
}

/// Key, value, proof and padding, and how packets are found.
fn body(lua: &mut String) {
    let magic = std::str::from_utf8(&MAGIC).expect("it is of letters");
    let (magic_at, key_len, value_len) = (at::MAGIC, at::KEY_LEN, at::VALUE_LEN);
    let (opcode, status) = (at::OPCODE, at::STATUS);
    let (kind, homes, head, place) = (at::KIND, Kind::Homes.code(), Moved::HEAD, Moved::BYTES);
    let (flags, bit, proof) = (at::FLAGS, Flags::SEALED.bits(), Proof::BYTES);
    line(
        lua,
        format_args!(
            r#"
local function filled(length)
  return math.floor((length + 7) / 8) * 8
end

local function moved(root, value)
  if value:len() < {head} then return end
  for i = 0, value(0, 2):le_uint() - 1 do
    local at = {head} + i * {place}
    if at + {place} > value:len() then return end
    local one = root:add(value(at, {place}), "home that moved")
    one:add_le(f.moved_home, value(at, 2))
    one:add_le(f.moved_port, value(at + 2, 2))
    one:add_le(f.moved_epoch, value(at + 4, 4))
    one:add(f.moved_address, value(at + 8, 16))
  end
end

local function is_ours(buffer)
  return buffer:len() >= {HEADER} and buffer({magic_at}, 6):string() == "{magic}"
end

function mlrinc.dissector(buffer, pinfo, tree)
  if not is_ours(buffer) then return 0 end
  local root = tree:add(mlrinc, buffer())
  local sealed = math.floor(buffer({flags}, 2):le_uint() / {bit}) % 2 == 1
  header(root, buffer)
  local at, key, about = {HEADER}, "", buffer({opcode}, 1):uint()
  local function take(field, length)
    local all = length > 0 and at + length <= buffer:len()
    if all then root:add(field, buffer(at, length)) end
    local range = all and buffer(at, length) or nil
    at = at + filled(length)
    return range
  end
  local named = take(f.key, buffer({key_len}, 1):uint())
  if named then key = " " .. named:string() end
  local value = take(f.value, buffer({value_len}, 4):le_uint())
  if value and buffer({kind}, 1):uint() == {homes} then moved(root, value) end
  if sealed and at + {proof} <= buffer:len() then
    root:add(f.proof, buffer(at, {proof}))
    at = at + {proof}
  end
  if at < buffer:len() then root:add(f.padding, buffer(at, buffer:len() - at)) end
  local text = (opcode_names[about] or "?") .. key
  if about >= {REPLY:#04x} and about < 0x80 then text = text .. " " .. (status_names[buffer({status}, 1):uint()] or "?") end
  root:append_text(", " .. text)
  pinfo.cols.protocol = "mlrinc"
  pinfo.cols.info = text
  return buffer:len()
end

mlrinc:register_heuristic("udp", function(buffer, pinfo, tree)
  if not is_ours(buffer) then return false end
  mlrinc.dissector(buffer, pinfo, tree)
  return true
end)"#
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All `buffer(offset, length)` that the header's function shows this field from.
    fn shown(lua: &str, name: &str) -> Vec<(usize, usize)> {
        let lines = lua.lines().filter(|line| line.contains(&format!("(f.{name}, buffer(")));
        let numbers = |line: &str| {
            let (_, range) = line.split_once("buffer(").expect("it is in the line");
            let (offset, length) = range.trim_end_matches(')').split_once(", ").expect("two numbers");
            (offset.parse().expect("a number"), length.parse().expect("a number"))
        };
        lines.map(numbers).collect()
    }

    #[test]
    fn every_field_is_declared_and_shown_where_it_lies() {
        let lua = dissector();
        for field in FIELDS {
            assert_eq!(lua.matches(&format!("f.{} = ProtoField.", field.name)).count(), 1, "{}", field.name);
            let mut end = field.offset;
            for (offset, length) in shown(&lua, field.name) {
                assert_eq!(offset, end, "{}", field.name);
                end += length;
            }
            assert_eq!(end, field.offset + field.length, "{}", field.name);
        }
    }

    #[test]
    fn every_code_has_its_name() {
        let lua = dissector();
        for control in Control::ALL {
            assert!(lua.contains(&format!("  [{:#04x}] = \"{}\",", control.code(), control.name())));
        }
        for verb in Verb::ALL {
            assert!(lua.contains(&format!("  [{:#04x}] = \"{}\",", verb.code(), verb.name())));
            assert!(lua.contains(&format!("  [{:#04x}] = \"{} reply\",", verb.code() | REPLY, verb.name())));
        }
        for status in Status::ALL {
            assert!(lua.contains(&format!("  [{:#04x}] = \"{}\",", status.code(), status.name())));
        }
    }
}
