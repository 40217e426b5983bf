//! Running other programs, in the open.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Prints a command, runs it, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// What a command prints, if it can be run and succeeds; nothing of it is shown.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The cargo that runs this task.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments);
    cargo
}

/// The first file of this name in the directories of `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// A command as it would be typed into a shell: the variables that it sets, then its words.
pub(crate) fn line(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let variables = set.map(|(name, value)| format!("{}={}", name.display(), quoted(value)));
    let program = command.get_program();
    // The full path of cargo is of no interest: it is whichever runs this task.
    let name = match Some(program) == env::var_os("CARGO").as_deref() {
        true => "cargo".to_owned(),
        false => quoted(program),
    };
    let words = variables.chain([name]).chain(command.get_args().map(quoted));
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.,:+@%$".contains(c);
    if word.chars().all(plain) { word.into_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_would_take_it() {
        let mut command = Command::new("rustup");
        command.args(["run", "it", "a b"]).env("FLAGS", "--cfg=x=\"y\"").env_remove("HOME");
        assert_eq!(line(&command), r#"FLAGS='--cfg=x="y"' rustup run it 'a b'"#);
    }
}
