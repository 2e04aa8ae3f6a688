//! Keys of a scenario file: the mapping of the file, cases and feeders.

use super::bars::BarKeys;
use super::checks::CheckKeys;
use super::contenders::ContenderKeys;
use super::feeders::FeederKeys;
use super::fields::{SCALARS, VALUES, pairs, word};
use super::grpc::GrpcKeys;
use super::load::Load;
use super::overrides::LEVELS;
use super::prepare::PREPARE;
use super::published::PublishedKeys;
use super::request::RequestKeys;
use super::settings::{BACKEND, Generator, Observe, PROTOCOL, Server, Target};
use super::side_loads::SideLoad;
use crate::protocol::CaseOrder;
use weir_document::settings;
use weir_document::shape::{Kind, Names};

/// Values of a name of the matrix.
const AXIS: Kind = Kind::Either(&[SCALARS, Kind::Table(Names::Name, &VALUES)]);

settings! {
    /// Requests, target, load and measurement.
    pub(super) static ROOT is "a scenario" {
        /// Version of the format.
        lab = by_hand(Kind::Integer(1, 1)).required(),
        /// Name in reports.
        name = text(Kind::Text).absent("the file's"),
        /// The server under test.
        target = by_hand(Kind::Object(Target::SHAPE)).required(),
        /// How the server is started; without, the server is already running.
        server = by_hand(Kind::Object(Server::SHAPE)),
        /// Servers that are compared under the same load, by name: one case for each.
        contenders = by_hand(Kind::Table(Names::Name, &Kind::Object(ContenderKeys::SHAPE))),
        /// Commands that run to their end before the first server starts. `${shared}` is a folder for
        /// their output, which servers and backend can use.
        prepare = by_hand(PREPARE),
        /// The backend of the server.
        backend = by_hand(Kind::Object(&BACKEND)),
        /// Compared settings of the server.
        cases = object::<Cases>(),
        /// Values of the load: one cell for each combination. `${name}` is the value,
        /// `${name.bytes}` its size in bytes. Instead of a list, names of levels and the values
        /// `${name.VALUE}` of each.
        matrix = by_hand(Kind::Table(Names::Name, &AXIS)),
        /// Values for `${name}`.
        variables = pairs(Names::Name),
        /// Rows of values, one per iteration: `${name.column}`.
        feeders = by_hand(Kind::Table(Names::Name, &Kind::Object(FeederKeys::SHAPE))),
        /// The schema of gRPC calls; without, the server is asked for it.
        grpc = by_hand(Kind::Object(GrpcKeys::SHAPE)),
        /// Requests of an iteration, in this order.
        requests = by_hand(Kind::List(&Kind::Object(RequestKeys::SHAPE))).required(),
        /// The load; several loads run one after the other.
        load = by_hand(Kind::OneOrMany(&Kind::Object(Load::SHAPE))).required(),
        /// A load of each server after its start, for instance to fill a database. A failed request
        /// ends the case.
        setup = by_hand(Kind::Object(SideLoad::SHAPE)),
        /// A load during each round, of which nothing is reported but its failures, and the resources
        /// that it uses.
        background = by_hand(Kind::Object(SideLoad::SHAPE)),
        /// Where the load is generated.
        generator = object::<Generator>(),
        /// Checks of a first response of each case, before any load.
        verify = by_hand(Kind::List(&Kind::Object(CheckKeys::SHAPE))),
        /// Requests that are sent once to each case, before any load, with checks of their own: a
        /// request without a token is rejected.
        probes = by_hand(Kind::List(&Kind::Object(RequestKeys::SHAPE))),
        /// Measurement of a cell.
        protocol = by_hand(Kind::Object(&PROTOCOL)).absent("one run, nothing cut off"),
        /// Observed subjects during the load.
        observe = object::<Observe>(),
        /// Thresholds of the run: `p99<500ms for echo`, `error-rate<=0`, `rps>=1000`.
        thresholds = texts(Kind::List(&Kind::Text)),
        /// Conditions that end the run early, with the verdict FAIL: `error-rate>5% for 10s`,
        /// `p99>2s for echo for 30s`.
        stop = texts(Kind::List(&Kind::Text)),
        /// Comparisons of contenders that have to hold: `cpu of weir <= 0.8 x nginx`.
        bars = by_hand(Kind::List(&Kind::Either(&[Kind::Text, Kind::Object(BarKeys::SHAPE)]))),
        /// Published figures, printed beside the measured ones.
        published = by_hand(Kind::List(&Kind::Object(PublishedKeys::SHAPE))),
        /// Overrides of `--quick` and `--full`.
        levels = by_hand(Kind::Object(&LEVELS)),
    },
    misspellings: &[
        ("scenarios", "write `requests`"),
        ("request", "write `requests: [{…}]`"),
        ("executor", "write it in `load`"),
    ],
}

settings! {
    /// Compared settings of the server: one case for each combination of factors.
    pub(super) struct Cases is "the cases" {
        /// Factors and their levels.
        factors = by_hand(Kind::Table(Names::Name, &SCALARS)).required(),
        /// Settings of a case.
        apply = object::<Apply>().required(),
        /// Order of the rounds of the cases.
        pub(super) order: CaseOrder = word().default("interleaved"),
    }
}

settings! {
    /// Settings of a case.
    pub(super) struct Apply is "the settings of a case" {
        /// Settings of weir, as `weir serve --set` takes them.
        pub(super) set: Vec<(String, String)> = pairs(Names::Parameter),
        /// Environment of the server's command.
        pub(super) env: Vec<(String, String)> = pairs(Names::Name),
        /// Arguments added to the server's command.
        pub(super) args: Vec<String> = texts(SCALARS),
    }
}
