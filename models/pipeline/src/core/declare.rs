//! The declaration of parameters: for each a field, and its reader.
//!
//! After the kind of each stands the range of its values, or what its words choose between; after
//! that its default, if it has one. A `limit` is a number in that range or the word `unlimited`.

macro_rules! tables {
    ($( $table:ident { $( $(#[$doc:meta])* $field:ident : $kind:ident $([ $($range:tt)* ])? = $default:expr ),* $(,)? } )*) => {
        $(
            /// One table of parameters.
            #[allow(non_camel_case_types)]
            #[derive(Clone, Debug)]
            pub struct $table { $( $(#[$doc])* pub $field: tables!(@type $kind $([ $($range)* ])?), )* }

            impl $table {
                /// Names of its parameters, as overrides spell them.
                pub(crate) const NAMES: &'static [&'static str] = &[ $( concat!(stringify!($table), ".", stringify!($field)), )* ];

                pub(crate) fn read(root: &toml::Table) -> Result<$table, crate::error::Error> {
                    Ok($table { $(
                        $field: tables!(@read $kind, crate::core::value::Place(root, stringify!($table), stringify!($field)), $default
                            $(, [ $($range)* ])?)?,
                    )* })
                }
            }
        )*
    };
    (@type int $range:tt) => { u32 };
    (@type limit $range:tt) => { u32 };
    (@type real $range:tt) => { f64 };
    (@type flag) => { bool };
    (@type word [$choice:ident]) => { $choice };
    (@type text) => { String };
    (@type triples) => { Vec<[u32; 3]> };
    (@read int, $at:expr, $default:expr, [$range:expr]) => { $at.int($default, $range) };
    (@read limit, $at:expr, $default:expr, [$range:expr]) => { $at.limit($default, $range) };
    (@read real, $at:expr, $default:expr, [$range:expr]) => { $at.real($default, $range) };
    (@read flag, $at:expr, $default:expr) => { $at.flag($default) };
    (@read word, $at:expr, $default:expr, [$choice:ident]) => { $at.word::<$choice>($default) };
    (@read text, $at:expr, $default:expr) => { $at.text($default) };
    (@read triples, $at:expr, $default:expr) => { $at.triples($default) };
}

macro_rules! params {
    ($( $table:ident ),* $(,)?) => {
        /// All parameters, one field a parameter, grouped by table: `table.field`.
        #[derive(Clone, Debug)]
        pub struct Params {
            /// Instruction set.
            pub isa: crate::isa::Isa,
            /// Why nothing measured was held against the core; empty where something was.
            pub unvalidated: String,
            $( #[doc = concat!("Table `", stringify!($table), "`.")] pub $table: $table, )*
        }

        impl Params {
            pub(crate) fn read(isa: crate::isa::Isa, root: &toml::Table) -> Result<Params, crate::error::Error> {
                let said = root.get("unvalidated").and_then(toml::Value::as_str);
                let unvalidated = said.unwrap_or_default().to_string();
                Ok(Params { isa, unvalidated, $( $table: $table::read(root)?, )* })
            }

            /// Names of all parameters, as overrides spell them.
            #[must_use]
            pub fn names() -> Vec<&'static str> {
                [ $( $table::NAMES ),* ].concat()
            }
        }
    };
}

pub(crate) use {params, tables};
