"""How JAX is set up for the programs of the command line; the library itself never does it."""


def configure_jax() -> None:
    """Set JAX up for a process; what is set before it is first used counts."""
    import jax

    jax.config.update("jax_enable_x64", True)
    # Batched factorisations of two programs in flight would block each other for ever on the thread pool of two cores.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
