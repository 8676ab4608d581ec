//! The binary `leaky`: see the library of the same package.

fn main() -> std::process::ExitCode {
    leaky_user::cli::main()
}
