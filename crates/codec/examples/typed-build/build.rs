fn main() -> Result<(), codec::build::BuildError> {
    codec::build::Config::new().include("proto").compile(&["proto/photo.proto"])?;
    Ok(())
}
