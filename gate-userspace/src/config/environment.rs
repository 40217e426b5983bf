//! Variables that override the file.
//!
//! `GATE_LISTEN__ADMIN` sets `listen.admin`; `GATE_BUCKET__ORDERS__RATE__BURST` sets `rate.burst` of the bucket named
//! `orders`. Two underscores separate the parts, case does not matter, and in a bucket's name whatever is no letter or
//! digit is an underscore. The value is TOML where it can be, otherwise a string. A variable without two underscores
//! means something else. A name that leads nowhere becomes an unknown key, and is reported like any other.

use secrecy::zeroize::Zeroizing;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::Span;

/// A variable that overrides a setting.
pub(super) struct Override {
    pub(super) name: String,
    /// What follows `GATE_` in its name, in lower case.
    pub(super) path: String,
    /// It may be a password.
    pub(super) value: Zeroizing<String>,
}

impl Override {
    /// A variable, if it is one of those.
    pub(super) fn new(name: &str, value: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let path = lower.strip_prefix("gate_").filter(|path| path.contains("__"))?;
        Some(Self { name: name.to_owned(), path: path.to_owned(), value: value.to_owned().into() })
    }

    /// Puts its value where its name says; there it will stand at `span`.
    pub(super) fn apply<'a>(&'a self, document: &mut DeTable<'a>, span: &Span) -> Result<(), String> {
        let mut parts = self.path.split("__");
        let mut table = document;
        if self.path.starts_with("bucket__") {
            table = bucket_named(table, parts.nth(1).unwrap_or_default())?;
        }
        let parts: Vec<_> = parts.collect();
        let Some((key, sections)) = parts.split_last() else {
            return Err("a bucket is not a setting; go on with two underscores and a key".to_owned());
        };
        for section in sections {
            let value = table
                .entry(Spanned::new(span.clone(), (*section).into()))
                .or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
            let DeValue::Table(inner) = value.get_mut() else {
                return Err(format!("{section} has no settings of its own; shorten the name"));
            };
            table = inner;
        }
        let text = self.value.as_str();
        let value = DeValue::parse(text).map_or_else(|_| DeValue::String(text.into()), Spanned::into_inner);
        // Inserting alone would keep the old key, and with it the old place.
        table.remove(*key);
        table.insert(Spanned::new(span.clone(), (*key).into()), placed(value, span));
        Ok(())
    }
}

/// The name that a bucket has in a variable's name, in lower case.
pub(super) fn environment_name(bucket: &str) -> String {
    bucket.chars().map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' }).collect()
}

fn bucket_named<'a, 't>(document: &'t mut DeTable<'a>, wanted: &str) -> Result<&'t mut DeTable<'a>, String> {
    let buckets = document.get_mut("bucket").map(Spanned::get_mut);
    let Some(DeValue::Array(buckets)) = buckets else {
        return Err("the file has no bucket".to_owned());
    };
    let name_of = |bucket: &DeValue<'_>| bucket.get("name")?.get_ref().as_str().map(environment_name);
    let names: Vec<_> = buckets.iter().filter_map(|bucket| name_of(bucket.get_ref())).collect();
    let bucket = buckets.iter_mut().map(Spanned::get_mut).find(|bucket| name_of(bucket).as_deref() == Some(wanted));
    match bucket {
        Some(DeValue::Table(bucket)) => Ok(bucket),
        _ => Err(format!("the file has no bucket {wanted}; it has {}", names.join(", "))),
    }
}

/// A value of which every part stands at the same place.
fn placed<'a>(value: DeValue<'a>, span: &Span) -> Spanned<DeValue<'a>> {
    let value = match value {
        DeValue::Array(parts) => {
            DeValue::Array(parts.into_iter().map(|part| placed(part.into_inner(), span)).collect())
        }
        DeValue::Table(parts) => DeValue::Table(
            parts
                .into_iter()
                .map(|(key, part)| (Spanned::new(span.clone(), key.into_inner()), placed(part.into_inner(), span)))
                .collect(),
        ),
        plain => plain,
    };
    Spanned::new(span.clone(), value)
}
