//! Countable resources, as `--resource` has them.

use pinfold_proto::Resource;
use pinfold_proto::resource::{ResourceError, parse_resources};

/// A list of resources, as a single value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourceArgs(pub(crate) Vec<Resource>);

/// Reads the option.
pub(crate) fn resources(text: &str) -> Result<ResourceArgs, ResourceError> {
    parse_resources(text).map(ResourceArgs)
}
