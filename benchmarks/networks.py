"""The zoo's networks as the suites need them, and tiny ones in their place for quick runs."""

import dataclasses

import numpy as np

# The recipe of WRN-28-10 has batches of 128, for which two cores need the better part of a minute.
# With 16 the extra work looks larger than it is: it has fixed costs, beside which the network has
# next to none.
_BATCHES = {"wrn_28_10": 16}


@dataclasses.dataclass(frozen=True)
class Network:
    """An architecture of the zoo at a batch size.

    Attributes:
        stand_in: the name under which a tiny network with the same code is built instead.
    """

    architecture: str
    batch: int
    stand_in: str | None = None

    @property
    def name(self):
        size = f"{self.architecture}, batch {self.batch}"
        return f"{size} (tiny stand-in)" if self.stand_in else size

    def recipe(self, method="individual"):
        from s2d_tf.zoo import recipes

        name = self.stand_in or self.architecture
        dataset = "digits" if self.stand_in else "cifar100_plus"
        return recipes.resolve(f"{name}.{method}.{dataset}")

    def build(self, method="individual", **changes):
        """A fresh network of one of the zoo's methods."""
        from s2d_tf.zoo import networks

        return networks.build_network(self.recipe(method).replace(**changes))

    @property
    def image_shape(self):
        from s2d_tf import data

        return data.info(self.recipe().source_dataset).image_shape

    def images(self):
        """Random pixels, and labels."""
        return random_images(self.batch, self.image_shape, self.recipe().num_classes)


def network(architecture, plan, batch=None):
    """A `Network` at its recipe's batch size; under a quick plan a tiny stand-in."""
    if plan.quick:
        return Network(architecture, 8, "wrn_10_2_s2")
    size = batch or _BATCHES.get(architecture) or Network(architecture, 0).recipe().data.batch_size
    return Network(architecture, size)


def random_images(num_images, shape=(32, 32, 3), num_classes=100):
    """uint8 images and int64 labels."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (num_images, *shape), dtype=np.uint8)
    return images, generator.integers(0, num_classes, num_images)


def compiled(model, recipe, jit_compile="auto"):
    """Compiles a network with its recipe's optimizer, as training does."""
    from s2d_tf.trainers.training import schedules

    model.compile(schedules.optimizer(recipe.training, 100), jit_compile=jit_compile)
    return model


def step_function(model, images, targets):
    """A function that makes one training step on a fixed batch, the one that `fit` runs."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensors((images, targets)).repeat()
    # Builds metrics and optimizer, and traces the step.
    model.fit(dataset, steps_per_epoch=1, shuffle=False, verbose=0)
    batches = iter(dataset)

    def step():
        logs = model.train_function(batches)
        return float(logs["loss"])  # Waits for the end.

    return step


def waiting(function, *arguments):
    """A function without arguments that calls a compiled one and waits for its answer."""
    import tensorflow as tf

    def call():
        for tensor in tf.nest.flatten(function(*arguments)):
            tensor.numpy()

    return call
