//! `options` in a startup packet: arguments as for the server's command line, of which settings are the useful part.

/// Splits `-c name=value`, `-cname=value` and `--name=value` into settings. White space divides arguments, a backslash
/// keeps the next character as it is ("Connection Strings, options"). An argument that is no setting is the error.
pub(super) fn settings(options: &str) -> Result<Vec<(String, String)>, String> {
    let mut arguments = arguments(options).into_iter();
    let mut settings = Vec::new();
    while let Some(argument) = arguments.next() {
        let setting = match (argument.strip_prefix("--"), argument.strip_prefix("-c")) {
            (Some(setting), _) => setting.to_owned(),
            (None, Some("")) => arguments.next().ok_or("-c")?,
            (None, Some(setting)) => setting.to_owned(),
            (None, None) => return Err(argument),
        };
        match setting.split_once('=') {
            // The server takes a dash for an underscore here.
            Some((name, value)) if !name.is_empty() => settings.push((name.replace('-', "_"), value.to_owned())),
            _ => return Err(argument),
        }
    }
    Ok(settings)
}

fn arguments(options: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut chars = options.chars().peekable();
    loop {
        while chars.next_if(|&char| is_space(char)).is_some() {}
        if chars.peek().is_none() {
            return arguments;
        }
        let mut argument = String::new();
        while let Some(char) = chars.next_if(|&char| !is_space(char)) {
            match char {
                '\\' => argument.extend(chars.next()),
                _ => argument.push(char),
            }
        }
        arguments.push(argument);
    }
}

/// C's `isspace`, which has one more than Rust's.
fn is_space(char: char) -> bool {
    char.is_ascii_whitespace() || char == '\x0b'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(options: &str) -> Vec<(String, String)> {
        settings(options).unwrap()
    }

    fn setting(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn every_way_to_write_a_setting_is_understood() {
        let expected = [setting("search_path", "a,b"), setting("geqo", "off"), setting("work_mem", "64MB")];
        assert_eq!(found("-c search_path=a,b  -cgeqo=off\t--work-mem=64MB\n"), expected);
        assert_eq!(found(" \u{b} "), []);
        assert_eq!(found("-c a="), [setting("a", "")]);
        assert_eq!(found("-c a=b=c"), [setting("a", "b=c")]);
    }

    #[test]
    fn a_backslash_keeps_spaces_and_backslashes() {
        assert_eq!(found(r"-c application_name=my\ app\\1"), [setting("application_name", r"my app\1")]);
        assert_eq!(found(r"-c a=b\"), [setting("a", "b")], "nothing follows the last one");
    }

    #[test]
    fn what_is_no_setting_is_named() {
        assert_eq!(settings("-c geqo=off -W 5"), Err("-W".to_owned()));
        assert_eq!(settings("-c"), Err("-c".to_owned()));
        assert_eq!(settings("-c geqo"), Err("-c".to_owned()));
        assert_eq!(settings("--geqo"), Err("--geqo".to_owned()));
        assert_eq!(settings("--=x"), Err("--=x".to_owned()));
        assert_eq!(settings("geqo=off"), Err("geqo=off".to_owned()));
    }
}
