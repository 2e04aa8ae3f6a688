//! `weir jwt`: tokens for development and tests.

mod inspect;
mod key_file;
mod keypair;
mod mint;

use crate::exit::Exit;

/// Commands on JSON Web Tokens.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Sign a token with a private key or a shared secret
    Mint(mint::Args),
    /// Print the claims of a token; with a key, verify the token
    Inspect(inspect::Args),
    /// Create a private key and a JWKS for token verification
    Keypair(keypair::Args),
}

/// Runs it.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Mint(args) => mint::run(&args).map(Exit::from),
        Command::Inspect(args) => inspect::run(&args),
        Command::Keypair(args) => keypair::run(&args).map(Exit::from),
    }
}
