//! What an operator is promised.

mod environment;
mod files;
mod mistakes;
mod printing;

use super::*;

/// Eight lines without a mistake; what a test adds begins at line 9.
const BUCKET: &str = r#"
[listen]
postgres = ["127.0.0.1:6432"]
[[bucket]]
name = "orders"
protocol = "postgres"
endpoints = ["db1:5432"]
clients = { trust = true }"#;

fn load(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let source = Source::new(Path::new("gate.toml"), text.to_owned().into(), &environment);
    load_from(&source, &environment)
}

fn loaded(text: &str, environment: &[(&str, &str)]) -> Loaded {
    load(text, environment).unwrap_or_else(|problems| panic!("{problems}"))
}

fn messages(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
    match load(text, environment) {
        Ok(loaded) => panic!("nothing is wrong: {loaded:?}"),
        Err(Problems(problems)) => problems.iter().map(Problem::to_string).collect(),
    }
}
