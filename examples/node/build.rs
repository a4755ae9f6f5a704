fn main() -> Result<(), fabric::build::BuildError> {
    fabric::build::Config::new().include("proto").compile(&["proto/shop.proto"])?;
    Ok(())
}
