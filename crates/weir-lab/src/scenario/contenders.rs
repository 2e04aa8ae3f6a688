//! Contenders: servers that are compared under the same load.

use super::axes::{self, Axis};
use super::cells::Combination;
use super::fields::{ONLY, VALUES, valid, word};
use super::settings::{self, Server};
use crate::foreign::{ForeignGenerator, Order};
use crate::program::Program;
use std::path::Path;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::Kind;
use weir_document::shape::fields::Fields;

/// The factor whose levels are the contenders.
pub(super) const FACTOR: &str = "contender";

settings! {
    /// A server that is compared with others under the same load.
    pub(super) struct ContenderKeys is "a contender" {
        /// Its server, or the name of the contender whose server it shares; without, the server of
        /// the scenario.
        server = by_hand(Kind::Either(&[Kind::Text, Kind::Object(Server::SHAPE)])),
        /// The port of the load: a name of the server's `ports`, or the number of a listener of
        /// weir, from 0.
        port: Option<String> = text(Kind::Scalar).absent("`${port}`; of weir, the listener with the target's port"),
        /// Another load generator than the Lab, for a single GET request; its program must be
        /// installed.
        generator: Option<ForeignGenerator> = word(),
        /// Values for `${contender.NAME}` in requests and loads.
        values = by_hand(VALUES),
        only = same(ONLY),
    }
}

/// The server of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The contender that has the server.
    pub owner: String,
    /// How it is started.
    pub server: Server,
    /// The port of the load: a name, or the number of a listener.
    pub port: Option<String>,
}

/// The contenders, in their order; `None` without any.
pub(super) fn axis(root: &Node) -> Option<Axis> {
    let members = root.get("contenders").and_then(Node::members).filter(|all| !all.is_empty())?;
    let level = |member: &Member| axes::level(FACTOR, &member.key, member.value.get("values"));
    Some(Axis { name: FACTOR.to_owned(), levels: members.iter().map(level).collect() })
}

/// The load generator of a cell; `None` for the Lab. Reports a program that the generator cannot send.
pub(super) fn generator(
    root: &Fields<'_>,
    combination: &Combination,
    program: &Program,
    report: &mut Diagnostics,
) -> Option<ForeignGenerator> {
    let node = root.get("contenders")?.get(combination.text(FACTOR)?)?;
    let generator = ContenderKeys::read(&Fields::new(node, ContenderKeys::SHAPE)).generator?;
    let order = Order::new(generator, program);
    valid(order, node.get("generator").unwrap_or(node), report)?;
    Some(generator)
}

/// The server of a cell; `None` for that of the scenario.
pub(super) fn contender(
    root: &Fields<'_>,
    combination: &Combination,
    folder: &Path,
    report: &mut Diagnostics,
) -> Option<Contender> {
    let all = root.get("contenders")?;
    let name = combination.text(FACTOR)?;
    let node = all.get(name)?;
    let port = ContenderKeys::read(&Fields::new(node, ContenderKeys::SHAPE)).port;
    let server = node.get("server")?;
    let Some(owner) = server.text() else {
        let server = settings::started_server(&Fields::new(server, Server::SHAPE), folder);
        return Some(Contender { owner: name.to_owned(), server, port });
    };
    let shared = all.get(owner).and_then(|other| other.get("server"));
    let Some(shared) = shared.filter(|shared| shared.members().is_some()) else {
        let message = format!("`{owner}` is not a contender with a server of its own");
        report.error(codes::UNKNOWN_NAME, server.at, message);
        return None;
    };
    let server = settings::started_server(&Fields::new(shared, Server::SHAPE), folder);
    Some(Contender { owner: owner.to_owned(), server, port })
}
