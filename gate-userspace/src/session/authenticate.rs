//! Has a client prove who it is.

use gate_core::protocol::postgres::authenticate::{self, Authentication, Method, Step};
use gate_core::protocol::postgres::credential::Credential;
use gate_core::protocol::postgres::message;
use gate_core::protocol::postgres::startup::Startup;
use gate_core::protocol::postgres::users::Users;

use super::client::Client;
use super::farewell::Farewell;
use crate::config;

/// What the client showed, and the beginning of the answer that it gets when it is served. Without users everybody is
/// who they say they are.
pub(super) async fn verify(
    users: Option<&Users>,
    method: Option<config::Method>,
    hello: &Startup,
    client: &mut Client,
) -> Result<(Credential, Vec<u8>), Farewell> {
    let mut out = Vec::with_capacity(512);
    hello.negotiate(&mut out);
    let Some(users) = users else {
        message::authentication_ok(&mut out);
        return Ok((Credential::None, out));
    };
    let mut random = [0; authenticate::RANDOM];
    getrandom::fill(&mut random)?;
    let mut authentication = match method {
        None => Authentication::begin(users, &hello.user, random, &mut out),
        Some(method) => Authentication::begin_with(asked_for(method), users, &hello.user, random, &mut out),
    };
    loop {
        client.send(&out).await?;
        out.clear();
        match client.message(|tag, body| authentication.handle(tag, body, &mut out)).await? {
            Step::Continue => {}
            Step::Done(credential) => return Ok((credential, out)),
            Step::Refused(refused) => return Err(Farewell::Login { user: hello.user.clone(), refused }),
        }
    }
}

fn asked_for(method: config::Method) -> Method {
    match method {
        config::Method::ScramSha256 => Method::Scram,
        config::Method::Md5 => Method::Md5,
        config::Method::Plain => Method::Cleartext,
    }
}
