fn main() -> Result<(), fabric::build::BuildError> {
    fabric::build::Config::new().include("proto").compile(&["proto/photo.proto"])?;
    Ok(())
}
