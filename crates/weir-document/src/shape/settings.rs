//! Settings: keys that are described once. [`settings!`](crate::settings) makes from one
//! description a struct, the [`Shape`] of its mapping and the function that reads it. A default is
//! a string as users write it, and the parser of the value also parses the default.
//!
//! The functions of this module are the types of keys. The macro adds the name and the meaning.

use super::fields::Fields;
use super::{Key, Kind, Names, Shape, format};
use crate::draft::{Data, Meaning, Member, Node, Scalar};
use crate::source_map::Span;
use crate::units;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;
use strum::VariantNames;

/// A struct whose fields are the keys of a mapping.
pub trait Settings: Sized {
    /// The description of the mapping.
    const SHAPE: &'static Shape;

    /// The values of a checked mapping; absent keys have their defaults.
    fn read(fields: &Fields<'_>) -> Self;

    /// The values of a checked mapping; absent keys have the values of `outer`.
    fn read_over(outer: Self, fields: &Fields<'_>) -> Self;
}

/// Describes the keys of a mapping.
///
/// ```
/// # use std::time::Duration;
/// weir_document::settings! {
///     /// Ejection by error rate: responses with a status of 500 or above.
///     #[derive(Clone, Debug)]
///     pub struct ErrorShare is "the error-rate ejection" {
///         /// Minimum number of responses for the rate to apply.
///         pub requests: u32 = integer(1, 1_000_000).default("20"),
///         /// Window of the count; each window begins at zero.
///         pub window: Duration = positive().default("10s"),
///         /// Time without ejection after a start.
///         pub grace: Option<Duration> = positive().absent("none"),
///     },
///     misspellings: &[("interval", "write `window`")],
/// }
/// assert_eq!(ErrorShare::default().requests, 20);
/// assert_eq!(ErrorShare::SHAPE.keys[1].doc, "Window of the count; each window begins at zero.");
/// ```
///
/// The comment of a key is its meaning in the reference and the schema, the comment of the struct
/// that of the mapping, and the title its name in messages. A key is named like its field, or by
/// `.name("…")`. After the struct follow further fields of the [`Shape`].
///
/// - A value of type `T` has a default, is a list, or is a [`section`]; an `Option<T>` has none.
/// - A field of a key that is [`by_hand`] has the `Default` of its type, until the caller sets the
///   value.
/// - A key without a type has no field.
/// - `given { … }` after the struct declares fields that are not keys: parameters of `read`. Such
///   a struct is not [`Settings`] and has no `Default`.
/// - `struct A for B is …` describes the fields of a struct `B` of another crate: `A::read` yields
///   a `B`.
/// - `static A is …` describes a mapping that is read key by key.
#[macro_export]
macro_rules! settings {
    (@shape $title:literal [$about:expr] {
        $({ $doc:expr, $vis:vis $field:ident [$($type:ty)?] $setting:expr })*
    } [$($part:ident: $content:expr),*]) => {{
        use $crate::shape::settings::*;
        static KEYS: &[$crate::shape::Key] = &[
            $($setting.describe(stringify!($field), $doc)$(.of::<$type>())?.key),*
        ];
        $crate::shape::Shape {
            $($part: $content,)*
            ..$crate::shape::Shape::new($title, $about.trim_ascii_start(), KEYS)
        }
    }};
    (@impl $name:ident yields [$output:ty] $title:literal [$about:expr] {
        $({ $doc:expr, $vis:vis $field:ident [$($type:ty)?] $setting:expr })*
    } {
        $($given:ident: $given_type:ty),*
    } $parts:tt) => {
        impl $name {
            /// The description of the mapping.
            pub const SHAPE: &'static $crate::shape::Shape = {
                static SHAPE: $crate::shape::Shape = $crate::settings!(@shape $title [$about] {
                    $({ $doc, $vis $field [$($type)?] $setting })*
                } $parts);
                &SHAPE
            };

            /// The values of a checked mapping; absent keys have their defaults.
            pub fn read(
                fields: &$crate::shape::fields::Fields<'_>,
                $($given: $given_type),*
            ) -> $output {
                use $crate::shape::settings::*;
                type Output = $output;
                Output {
                    $($(
                        $field: $setting.describe(stringify!($field), "").read::<$type>(fields),
                    )?)*
                    $($given,)*
                }
            }
        }
    };
    (@traits $name:ident {
        $({ $doc:expr, $vis:vis $field:ident [$($type:ty)?] $setting:expr })*
    } {}) => {
        impl $crate::shape::settings::Settings for $name {
            const SHAPE: &'static $crate::shape::Shape = $name::SHAPE;

            fn read(fields: &$crate::shape::fields::Fields<'_>) -> Self {
                $name::read(fields)
            }

            fn read_over(outer: Self, fields: &$crate::shape::fields::Fields<'_>) -> Self {
                use $crate::shape::settings::*;
                Self {
                    $($(
                        $field: $setting
                            .describe(stringify!($field), "")
                            .read_over::<$type>(outer.$field, fields),
                    )?)*
                }
            }
        }

        impl Default for $name {
            /// All keys absent.
            fn default() -> Self {
                Self::read(&$crate::shape::fields::Fields::empty($name::SHAPE))
            }
        }
    };
    (@traits $name:ident $settings:tt { $($given:tt)+ }) => {};
    (@struct $(#[$attribute:meta])* $vis:vis $name:ident {
        $({ $doc:expr, $field_vis:vis $field:ident [$($type:ty)?] $setting:expr })*
    } {
        $({ $given_doc:expr, $given_vis:vis $given:ident [$given_type:ty] })*
    }) => {
        $(#[$attribute])*
        $vis struct $name {
            $(
                #[doc = $given_doc]
                $given_vis $given: $given_type,
            )*
            $($(
                #[doc = $doc]
                $field_vis $field: $type,
            )?)*
        }
    };
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:path),+)])?
        $vis:vis struct $name:ident is $title:literal {
            $($(#[doc = $doc:literal])* $field_vis:vis $field:ident $(: $type:ty)? = $setting:expr),*
            $(,)?
        }
        $(given {
            $($(#[doc = $given_doc:literal])+ $given_vis:vis $given:ident: $given_type:ty),+
            $(,)?
        })?
        $(, $part:ident: $content:expr)* $(,)?
    ) => {
        $crate::settings!(@struct
            $(#[doc = $about])+ $(#[derive($($derive),+)])? $vis $name {
                $({ concat!($($doc),*), $field_vis $field [$($type)?] $setting })*
            } {
                $($({ concat!($($given_doc),+), $given_vis $given [$given_type] })+)?
            }
        );
        $crate::settings!(@impl $name yields [$name] $title [concat!($($about),+)] {
            $({ concat!($($doc),*).trim_ascii_start(), $field_vis $field [$($type)?] $setting })*
        } { $($($given: $given_type),+)? } [$($part: $content),*]);
        $crate::settings!(@traits $name {
            $({ "", $field_vis $field [$($type)?] $setting })*
        } { $($($given)+)? });
    };
    (
        $(#[doc = $about:literal])+
        $vis:vis struct $name:ident for $output:ident is $title:literal {
            $($(#[doc = $doc:literal])* $field:ident $(: $type:ty)? = $setting:expr),*
            $(,)?
        }
        $(given { $($given:ident: $given_type:ty),+ $(,)? })?
        $(, $part:ident: $content:expr)* $(,)?
    ) => {
        $(#[doc = $about])+
        $vis struct $name;
        $crate::settings!(@impl $name yields [$output] $title [concat!($($about),+)] {
            $({ concat!($($doc),*).trim_ascii_start(), $field [$($type)?] $setting })*
        } { $($($given: $given_type),+)? } [$($part: $content),*]);
    };
    (
        $(#[doc = $about:literal])+
        $vis:vis static $name:ident is $title:literal {
            $($(#[doc = $doc:literal])* $field:ident = $setting:expr),*
            $(,)?
        }
        $(, $part:ident: $content:expr)* $(,)?
    ) => {
        $(#[doc = $about])+
        $vis static $name: $crate::shape::Shape = $crate::settings!(
            @shape $title [concat!($($about),+)] {
                $({ concat!($($doc),*).trim_ascii_start(), $field [] $setting })*
            } [$($part: $content),*]
        );
    };
}

/// Parses a checked value: malformed values read as absent.
pub type Parse<T> = fn(&Node) -> Option<T>;

/// A key, and how its value is read.
#[derive(Debug)]
pub struct Setting<R> {
    /// The description for check, schema and reference.
    pub key: Key,
    reader: R,
}

/// Reads the value of a key as a `V`.
pub trait Reads<V> {
    /// The value of the key.
    fn read(&self, key: &Key, fields: &Fields<'_>) -> V;
}

/// The value, if written; of a list its items.
#[derive(Debug)]
pub struct Written<T>(Parse<T>);
/// The value, or the default of the key.
#[derive(Debug)]
pub struct OrDefault<T>(Parse<T>);
/// The values of a mapping, or its defaults.
#[derive(Debug)]
pub struct Nested<T>(&'static Shape, fn(&Fields<'_>) -> T);
/// Nothing: the caller reads the value.
#[derive(Debug)]
pub struct ByHand;

impl<T> Reads<Option<T>> for Written<T> {
    fn read(&self, key: &Key, fields: &Fields<'_>) -> Option<T> {
        self.0(fields.get(key.name)?)
    }
}

impl<T> Reads<Vec<T>> for Written<Vec<T>> {
    fn read(&self, key: &Key, fields: &Fields<'_>) -> Vec<T> {
        fields.get(key.name).and_then(self.0).unwrap_or_default()
    }
}

impl<T> Reads<T> for OrDefault<T> {
    fn read(&self, key: &Key, fields: &Fields<'_>) -> T {
        let default = || self.0(&literal(key.default.unwrap_or_default()));
        let written = fields.get(key.name).and_then(self.0);
        written.or_else(default).expect("the default of a key is valid")
    }
}

impl<T> Reads<T> for Nested<T> {
    fn read(&self, key: &Key, fields: &Fields<'_>) -> T {
        self.1(&fields.object_or_empty(key.name, self.0))
    }
}

impl<V: Default> Reads<V> for ByHand {
    fn read(&self, _: &Key, _: &Fields<'_>) -> V {
        V::default()
    }
}

impl<R> Setting<R> {
    const fn new(kind: Kind, reader: R) -> Self {
        Self { key: Key::new("", kind, ""), reader }
    }

    /// Sets the name of the key, if it is not the name of the field.
    #[must_use]
    pub const fn name(mut self, name: &'static str) -> Self {
        self.key.name = name;
        self
    }

    /// Makes the key required.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.key.required = true;
        self
    }

    /// Sets the behaviour without the key, if that is not a value of the key.
    #[must_use]
    pub const fn absent(mut self, prose: &'static str) -> Self {
        self.key.absent = Some(prose);
        self
    }

    /// Never show the value.
    #[must_use]
    pub const fn redacted(mut self) -> Self {
        self.key.redacted = true;
        self
    }

    /// Sets meaning and name, unless they are set.
    #[must_use]
    pub const fn describe(mut self, name: &'static str, doc: &'static str) -> Self {
        if self.key.name.is_empty() {
            self.key.name = name;
        }
        if self.key.doc.is_empty() {
            self.key.doc = doc;
        }
        self
    }

    /// The setting with values of type `V`.
    #[must_use]
    pub const fn of<V>(self) -> Self
    where
        R: Reads<V>,
    {
        self
    }

    /// The value of the key.
    pub fn read<V>(&self, fields: &Fields<'_>) -> V
    where
        R: Reads<V>,
    {
        self.reader.read(&self.key, fields)
    }

    /// The value of the key, or `outer`.
    pub fn read_over<V>(&self, outer: V, fields: &Fields<'_>) -> V
    where
        R: Reads<V>,
    {
        if fields.get(self.key.name).is_some() { self.read(fields) } else { outer }
    }
}

impl<T> Setting<Written<T>> {
    /// Sets the default, as written.
    #[must_use]
    pub const fn default(self, default: &'static str) -> Setting<OrDefault<T>> {
        let Self { key, reader: Written(parse) } = self;
        Setting { key: key.default(default), reader: OrDefault(parse) }
    }
}

impl Setting<ByHand> {
    /// Sets the default, as written.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.key.default = Some(default);
        self
    }
}

/// A value that the caller reads, with checks that involve more than the value.
pub const fn by_hand(kind: Kind) -> Setting<ByHand> {
    Setting::new(kind, ByHand)
}

/// A key that several mappings have, with its name and meaning.
pub const fn same(key: Key) -> Setting<ByHand> {
    Setting { key, reader: ByHand }
}

/// A value of any kind with a parser of its own.
pub const fn value<T>(kind: Kind, parse: Parse<T>) -> Setting<Written<T>> {
    Setting::new(kind, Written(parse))
}

/// A mapping that is read with its defaults if it is absent.
pub const fn section<T: Settings>() -> Setting<Nested<T>> {
    section_of(T::SHAPE, T::read)
}

/// A mapping of another struct that is read with its defaults if it is absent.
pub const fn section_of<T>(
    shape: &'static Shape,
    read: fn(&Fields<'_>) -> T,
) -> Setting<Nested<T>> {
    Setting::new(Kind::Object(shape), Nested(shape, read))
}

/// A mapping, if written.
pub const fn object<T: Settings>() -> Setting<Written<T>> {
    value(Kind::Object(T::SHAPE), |node| {
        node.members().map(|_| T::read(&Fields::new(node, T::SHAPE)))
    })
}

/// A value of an enumeration.
pub const fn choice<T: VariantNames + FromStr>() -> Setting<Written<T>> {
    value(Kind::Enum(T::VARIANTS), choice_of)
}

/// Values of an enumeration, or a single one.
pub const fn choices<T: VariantNames + FromStr>() -> Setting<Written<Vec<T>>> {
    value(Kind::OneOrMany(Words::<T>::KIND), |node| {
        Some(items(node).iter().filter_map(choice_of).collect())
    })
}

/// `true` or `false`.
pub const fn boolean() -> Setting<Written<bool>> {
    value(Kind::Bool, |node| match node.scalar()?.meaning() {
        Meaning::Bool(value) => Some(value),
        _ => None,
    })
}

/// An integer in a range, including both ends.
pub const fn integer<T: TryFrom<u64>>(min: u64, max: u64) -> Setting<Written<T>> {
    value(Kind::Integer(min, max), integer_of)
}

/// Integers, or a single one; `kind` describes both.
pub const fn integers<T: TryFrom<u64>>(kind: Kind) -> Setting<Written<Vec<T>>> {
    value(kind, integers_of)
}

/// A duration, possibly zero.
pub const fn duration() -> Setting<Written<Duration>> {
    value(Kind::Format(format::DURATION), duration_of)
}

/// A duration above zero.
pub const fn positive() -> Setting<Written<Duration>> {
    value(Kind::Format(format::POSITIVE_DURATION), duration_of)
}

/// A duration above zero; `none` means no limit.
pub const fn time_limit() -> Setting<Written<Option<Duration>>> {
    const KIND: Kind =
        Kind::Either(&[Kind::Enum(&["none"]), Kind::Format(format::POSITIVE_DURATION)]);
    value(KIND, |node| match node.text()? {
        "none" => Some(None),
        _ => duration_of(node).map(Some),
    })
}

/// A size in bytes.
pub const fn size<T: TryFrom<u64>>() -> Setting<Written<T>> {
    value(Kind::Format(format::SIZE), |node| units::size(node.text()?).ok()?.try_into().ok())
}

/// A percentage, in hundredths of a percent.
pub const fn percent() -> Setting<Written<u32>> {
    value(Kind::Format(format::PERCENT), |node| units::percent(node.text()?).ok())
}

/// An address with a port.
pub const fn address() -> Setting<Written<SocketAddr>> {
    value(Kind::Format(format::ADDRESS), |node| node.text()?.parse().ok())
}

/// A string of any kind.
pub const fn text(kind: Kind) -> Setting<Written<String>> {
    value(kind, text_of)
}

/// Strings, or a single one; `kind` describes both.
pub const fn texts(kind: Kind) -> Setting<Written<Vec<String>>> {
    value(kind, texts_of)
}

/// Strings in lower case, or a single one; `kind` describes both.
pub const fn names(kind: Kind) -> Setting<Written<Vec<String>>> {
    value(kind, |node| {
        Some(items(node).iter().filter_map(|n| Some(n.text()?.to_ascii_lowercase())).collect())
    })
}

/// Strings of one line by their names.
pub const fn table(kind: Kind) -> Setting<Written<Vec<(String, String)>>> {
    value(kind, |node| {
        let pair = |m: &Member| Some((m.key.clone(), line(m.value.text()?)));
        Some(node.members()?.iter().filter_map(pair).collect())
    })
}

/// Values of headers by their names in lower case.
pub const fn headers() -> Setting<Written<Vec<(String, String)>>> {
    value(Kind::Table(Names::Header, &Kind::Scalar), |node| {
        let pair = |m: &Member| Some((m.key.to_ascii_lowercase(), line(m.value.text()?)));
        Some(node.members()?.iter().filter_map(pair).collect())
    })
}

/// A string without the line break at the end of a file.
fn line(text: &str) -> String {
    text.trim_end_matches(['\r', '\n']).to_owned()
}

fn text_of(node: &Node) -> Option<String> {
    node.text().map(str::to_owned)
}

/// Strings, or a single one.
pub fn texts_of(node: &Node) -> Option<Vec<String>> {
    Some(items(node).iter().filter_map(text_of).collect())
}

fn integer_of<T: TryFrom<u64>>(node: &Node) -> Option<T> {
    node.scalar()?.integer()?.try_into().ok()
}

/// Integers, or a single one.
pub fn integers_of<T: TryFrom<u64>>(node: &Node) -> Option<Vec<T>> {
    Some(items(node).iter().filter_map(integer_of).collect())
}

fn duration_of(node: &Node) -> Option<Duration> {
    units::duration(node.text()?).ok()
}

/// A value of an enumeration.
pub fn choice_of<T: FromStr>(node: &Node) -> Option<T> {
    node.text()?.parse().ok()
}

/// The items of a list, or a single item.
pub fn items(node: &Node) -> &[Node] {
    node.items().unwrap_or(std::slice::from_ref(node))
}

/// A default as a node: a scalar, `[a, b]` or `{key: a, key: b}`.
pub fn literal(text: &str) -> Node {
    let at = Span::NOWHERE;
    let within = |open, close| Some(text.strip_prefix(open)?.strip_suffix(close)?.split(", "));
    let data = if let Some(items) = within('[', ']') {
        Data::List(items.map(literal).collect())
    } else if let Some(members) = within('{', '}') {
        let pairs = members.filter_map(|member| member.split_once(": "));
        let member =
            |(key, value): (&str, &str)| Member { key: key.to_owned(), at, value: literal(value) };
        Data::Map(pairs.map(member).collect())
    } else {
        let text = text.to_owned();
        Data::Scalar(Scalar { text, plain: true, from_file: false, from_env: false, lost: false })
    };
    Node { at, data }
}

/// The names of an enumeration.
struct Words<T>(PhantomData<T>);

impl<T: VariantNames> Words<T> {
    const KIND: &'static Kind = &Kind::Enum(T::VARIANTS);
}
