//! What a model's tensors do not say: `model.json` beside `model.safetensors`.
//!
//! ```json
//! {
//!   "name": "ads", "version": "3", "dense": 13,
//!   "tables": [{"name": "user", "tensor": "emb_l.0.weight", "rows": 1000, "dim": 64, "format": "int8", "pooling": "mean", "plan": "user.plan"}],
//!   "interaction": "dot", "pairs": "lower", "sigmoid": true,
//!   "activations": {"bottom": ["relu", "relu"], "top": ["relu", "sigmoid"]}
//! }
//! ```
//! Every field may be missing, and so may the file: what then follows from the tensors or from custom is noted (`Model::assumed`).
//! Fields that are not known are
//! refused: a misspelt one would be a silent default. What both say must agree.

use crate::mlp::Activation;
use crate::model::Interaction;
use crate::reduce::Pooling;
use serde::{Deserialize, Serialize};

/// See the head of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manifest {
    /// The model's name; that of its folder if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version; 1 if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How many dense features there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<usize>,
    /// The tables, in the order in which the model was trained with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<TableEntry>>,
    /// How vectors meet; if missing, whichever fits the top MLP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interaction: Option<Interaction>,
    /// In which order the top MLP takes the products of pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Pairs>,
    /// Whether a sigmoid ends the top MLP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigmoid: Option<bool>,
    /// What follows each layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activations: Option<Activations>,
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    /// Its name.
    pub name: String,
    /// The tensor that holds it; if missing, the one of this name or this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// Its rows, to be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Numbers in a row, to be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<u64>,
    /// How rows are to be written: f32, f16, int8 or int4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// What becomes of a bag's rows; sum if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooling: Option<PoolingName>,
    /// The file of a memo plan, in the manifest's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// [`Pooling`] as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum PoolingName {
    Sum,
    Mean,
    Max,
    Min,
}

impl From<PoolingName> for Pooling {
    fn from(name: PoolingName) -> Pooling {
        match name {
            PoolingName::Sum => Pooling::Sum,
            PoolingName::Mean => Pooling::Mean,
            PoolingName::Max => Pooling::Max,
            PoolingName::Min => Pooling::Min,
        }
    }
}

impl From<Pooling> for PoolingName {
    fn from(pooling: Pooling) -> PoolingName {
        match pooling {
            Pooling::Sum => PoolingName::Sum,
            Pooling::Mean => PoolingName::Mean,
            Pooling::Max => PoolingName::Max,
            Pooling::Min => PoolingName::Min,
        }
    }
}

/// In which order a top MLP takes the products of pairs of the vectors [bottom, table 0, table 1, …].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairs {
    /// Row by row below the diagonal, (1,0) (2,0) (2,1) (3,0) …, as the reference implementation.
    Lower,
    /// Row by row above it, (0,1) (0,2) … (1,2) …, as TorchRec.
    Upper,
}

/// What follows each layer, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activations {
    /// Of the bottom MLP.
    pub bottom: Vec<Activation>,
    /// Of the top MLP.
    pub top: Vec<Activation>,
}

impl Manifest {
    /// The manifest in `bytes`.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// As it is written.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and numbers")
    }
}
