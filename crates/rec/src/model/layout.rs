//! Which tensor is what, by the names that the reference implementation and TorchRec give them.
//!
//! | | reference (`dlrm_s_pytorch.py`) | TorchRec (`torchrec/models/dlrm.py`) |
//! |---|---|---|
//! | table | `emb_l.{k}.weight` | `….embedding_bags.{name}.weight` |
//! | bottom | `bot_l.{0,2,…}.weight`, `.bias` | `dense_arch.model._mlp.{i}._linear.weight`, `.bias` |
//! | top | `top_l.{0,2,…}.weight`, `.bias` | `over_arch.model.0._mlp.{i}._linear.…`, last `over_arch.model.1.weight`, `.bias` |
//!
//! What stands before (`module.`, `model.`) does not count.

/// What a tensor is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// The table of this place or name.
    Table(Key),
    /// A layer, and whether it is its bias.
    Layer { part: Part, order: (u32, u32), bias: bool },
}

/// What a table is called: numbers before names, names with digits by their number (t_2 before t_10).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Place(u32),
    Name(String, Option<u64>, String),
}

/// Which MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Bottom,
    Top,
}

impl Part {
    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Bottom => "bottom",
            Part::Top => "top",
        }
    }
}

impl Key {
    fn named(name: &str) -> Key {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Key::Name(stem.to_owned(), name[stem.len()..].parse().ok(), name.to_owned())
    }

    /// The table's name where the manifest gives none.
    pub(super) fn table_name(&self) -> String {
        match self {
            Key::Place(at) => format!("t{at}"),
            Key::Name(_, _, name) => name.clone(),
        }
    }
}

/// What the tensor called `name` is, if it is something; and whether it is TorchRec's.
pub(super) fn role(name: &str) -> Option<(Role, bool)> {
    let parts: Vec<&str> = name.split('.').collect();
    let number = |text: &str| text.parse::<u32>().ok();
    let bias = match *parts.last()? {
        "weight" => false,
        "bias" => true,
        _ => return None,
    };
    let layer = |part, order| Some(Role::Layer { part, order, bias });
    // The longest patterns first: what stands before them does not count.
    let (role, is_torchrec) = match parts.as_slice() {
        [.., "dense_arch", "model", "_mlp", i, "_linear", _] => (layer(Part::Bottom, (0, number(i)?)), true),
        [.., "over_arch", "model", group, "_mlp", i, "_linear", _] => {
            (layer(Part::Top, (number(group)?, number(i)?)), true)
        }
        [.., "over_arch", "model", group, _] => (layer(Part::Top, (number(group)?, 0)), true),
        [.., "embedding_bags", name, _] if !bias => (Some(Role::Table(Key::named(name))), true),
        [.., "emb_l", k, _] if !bias => (Some(Role::Table(Key::Place(number(k)?))), false),
        [.., "bot_l", i, _] => (layer(Part::Bottom, (0, number(i)?)), false),
        [.., "top_l", i, _] => (layer(Part::Top, (0, number(i)?)), false),
        _ => return None,
    };
    Some((role?, is_torchrec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_of_names_are_known() {
        let layer = |part, order, bias| Role::Layer { part, order, bias };
        for (name, want) in [
            ("emb_l.12.weight", (Role::Table(Key::Place(12)), false)),
            ("module.bot_l.2.bias", (layer(Part::Bottom, (0, 2), true), false)),
            ("top_l.4.weight", (layer(Part::Top, (0, 4), false), false)),
            (
                "model.sparse_arch.embedding_bag_collection.embedding_bags.t_cat_3.weight",
                (Role::Table(Key::named("t_cat_3")), true),
            ),
            ("dense_arch.model._mlp.1._linear.bias", (layer(Part::Bottom, (0, 1), true), true)),
            ("model.over_arch.model.0._mlp.1._linear.weight", (layer(Part::Top, (0, 1), false), true)),
            ("over_arch.model.1.weight", (layer(Part::Top, (1, 0), false), true)),
        ] {
            assert_eq!(role(name), Some(want), "{name}");
        }
        for name in ["", "weight", "emb_l.x.weight", "emb_l.0.bias", "v_W_l.0", "inter_arch.crossnet.bias.0"]
        {
            assert_eq!(role(name), None, "{name}");
        }
    }

    #[test]
    fn tables_are_ordered_by_number() {
        let mut keys = ["t_10", "t_9", "t_1", "s"].map(Key::named);
        keys.sort();
        assert_eq!(keys.map(|key| key.table_name()), ["s", "t_1", "t_9", "t_10"]);
    }
}
