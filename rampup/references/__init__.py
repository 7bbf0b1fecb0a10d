"""What to compare with: rules and optima as policies, and what an all-seeing player achieves."""

from rampup.references.named import default_reference as default_reference
from rampup.references.named import policy_named as policy_named
from rampup.references.named import reference_name as reference_name
