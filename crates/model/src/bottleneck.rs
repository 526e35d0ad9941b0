//! Owns the stages that can limit a transfer, with their one spelling in events, records, figures and the API.
//! Finds no stage: `tuner` does.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The stage that limits a transfer.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema,
)]
pub enum Bottleneck {
    /// Reading, or scanning, at the source.
    #[serde(rename = "source storage")]
    SourceStorage,
    /// Processors at the source.
    #[serde(rename = "source CPU")]
    SourceCpu,
    /// The path between the two ends.
    #[serde(rename = "network")]
    Network,
    /// Processors at the destination.
    #[serde(rename = "destination CPU")]
    DestinationCpu,
    /// Writing or syncing at the destination.
    #[serde(rename = "destination storage")]
    DestinationStorage,
    /// The limit that the user set.
    #[serde(rename = "limit")]
    Limit,
}

impl Bottleneck {
    /// All stages, from the source to the destination, and the limit.
    pub const ALL: [Self; 6] = [
        Self::SourceStorage,
        Self::SourceCpu,
        Self::Network,
        Self::DestinationCpu,
        Self::DestinationStorage,
        Self::Limit,
    ];

    /// The spelling for programs: in events, records, figures and the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SourceStorage => "source storage",
            Self::SourceCpu => "source CPU",
            Self::Network => "network",
            Self::DestinationCpu => "destination CPU",
            Self::DestinationStorage => "destination storage",
            Self::Limit => "limit",
        }
    }

    /// The words for people, which follow `limited by`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Limit => "the limit that is set",
            stage => stage.as_str(),
        }
    }

    /// The stage of a word. Another version may know further stages.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == word)
    }

    /// Deserializes a field. The stage of another version counts as none.
    ///
    /// # Errors
    ///
    /// A value that is neither text nor null.
    pub fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        let word = Option::<String>::deserialize(deserializer)?;
        Ok(word.and_then(|word| Self::of_word(&word)))
    }

    /// Deserializes figures by stage. Figures of stages that this version does not know are left out.
    ///
    /// # Errors
    ///
    /// A value that is no map of figures.
    pub fn known_keys<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Self, f64>, D::Error> {
        let figures = BTreeMap::<String, f64>::deserialize(deserializer)?;
        let known = |(word, figure): (String, f64)| Some((Self::of_word(&word)?, figure));
        Ok(figures.into_iter().filter_map(known).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
    struct Document {
        #[serde(default, deserialize_with = "Bottleneck::known")]
        bottleneck: Option<Bottleneck>,
        #[serde(default, deserialize_with = "Bottleneck::known_keys")]
        shares: BTreeMap<Bottleneck, f64>,
    }

    #[test]
    fn each_stage_has_one_spelling() {
        for stage in Bottleneck::ALL {
            let json = serde_json::to_string(&stage).unwrap();
            assert_eq!(json, format!("\"{}\"", stage.as_str()));
            assert_eq!(serde_json::from_str::<Bottleneck>(&json).unwrap(), stage);
            let document = Document {
                bottleneck: Some(stage),
                shares: BTreeMap::from([(stage, 0.5)]),
            };
            let json = serde_json::to_string(&document).unwrap();
            assert_eq!(serde_json::from_str::<Document>(&json).unwrap(), document);
        }
    }

    #[test]
    fn a_stage_of_another_version_counts_as_none() {
        let documents = [
            r#"{"bottleneck":"the moon","shares":{"the moon":1.0}}"#,
            r#"{"bottleneck":null}"#,
            "{}",
        ];
        for json in documents {
            let document: Document = serde_json::from_str(json).unwrap();
            assert_eq!(document, Document::default(), "{json}");
        }
    }
}
