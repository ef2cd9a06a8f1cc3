//! Enums stored and sent as text, with one list of names for the database, the wire and the code.

/// Error of parsing an unknown name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is unknown; known: {known}")]
pub struct UnknownText {
    pub text: String,
    /// Known names, separated by commas.
    pub known: String,
}

/// Declares an enum stored and sent as text: the enum, `ALL`, `as_str`, `Display`, `FromStr`, serde and the schema. The
/// using crate must depend on serde and utoipa.
#[macro_export]
macro_rules! text_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:tt),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, utoipa::ToSchema)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every variant, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in the database and on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns the name for users, with spaces.
            pub fn in_words(self) -> String {
                self.as_str().replace('_', " ")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        // Manual impl, because serde's derived errors mention variants.
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::UnknownText;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err($crate::UnknownText {
                        text: other.to_owned(),
                        known: [$($text),+].join(", "),
                    }),
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema as _;

    use crate::{Kind, WaitReason};

    #[test]
    fn schema_of_enum_lists_wire_names() {
        for (schema, names) in [
            (
                Kind::schema(),
                Kind::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
            ),
            (
                WaitReason::schema(),
                WaitReason::ALL.iter().map(|it| it.as_str()).collect(),
            ),
        ] {
            let schema = serde_json::to_value(schema).unwrap();
            assert_eq!(schema["enum"], serde_json::json!(names), "{schema}");
        }
    }
}
