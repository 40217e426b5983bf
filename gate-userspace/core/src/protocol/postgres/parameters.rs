//! What a server reported about its settings (`ParameterStatus`; "Protocol, Message Flow, Asynchronous Operations").

use super::fields::Fields;
use super::message;

/// Settings as the server sent them and in its order. They are bytes, because their encoding is the connection's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    reported: Vec<(Text, Text)>,
}

type Text = Box<[u8]>;

impl Parameters {
    /// Nothing reported yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A setting's value; names are compared as the server does, without regard to case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.reported.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| &**value)
    }

    /// Notes a value; a setting that is known keeps its place.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        match self.reported.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = value.into(),
            None => self.reported.push((name.into(), value.into())),
        }
    }

    /// Notes what changed.
    pub fn update(&mut self, changes: &Self) {
        changes.iter().for_each(|(name, value)| self.set(name, value));
    }

    /// Names and values in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.reported.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        self.reported.is_empty()
    }

    /// Appends it all as `ParameterStatus` messages.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|(name, value)| message::parameter_status(out, name, value));
    }

    /// Notes the body of a `ParameterStatus`; `None` if it is not one.
    pub(super) fn note(&mut self, body: &[u8]) -> Option<()> {
        let mut fields = Fields::new(body);
        let (name, value) = (fields.string()?, fields.string()?);
        fields.is_empty().then(|| self.set(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported() -> Parameters {
        let mut parameters = Parameters::new();
        for (name, value) in [("server_version", "18.1"), ("TimeZone", "UTC"), ("in_hot_standby", "off")] {
            parameters.set(name.as_bytes(), value.as_bytes());
        }
        parameters
    }

    #[test]
    fn a_client_is_told_what_the_server_reported_in_its_order() {
        let mut out = Vec::new();
        reported().write(&mut out);
        let told = b"S\0\0\0\x18server_version\x0018.1\0S\0\0\0\x11TimeZone\0UTC\0S\0\0\0\x17in_hot_standby\0off\0";
        assert_eq!(out, told);
    }

    #[test]
    fn a_change_keeps_its_place_and_names_have_no_case() {
        let (mut parameters, mut changes) = (reported(), Parameters::new());
        changes.set(b"timezone", b"Europe/Z\xfcrich");
        changes.set(b"scram_iterations", b"4096");
        parameters.update(&changes);
        let names: Vec<_> = parameters.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"server_version"[..], b"TimeZone", b"in_hot_standby", b"scram_iterations"]);
        assert_eq!(parameters.get("TIMEZONE"), Some(&b"Europe/Z\xfcrich"[..]), "whatever its encoding");
        assert_eq!(parameters.get("search_path"), None);
    }

    #[test]
    fn only_a_name_and_a_value_are_a_report() {
        for body in [&b""[..], b"name", b"name\0value", b"name\0value\0more"] {
            assert_eq!(Parameters::new().note(body), None);
        }
    }
}
