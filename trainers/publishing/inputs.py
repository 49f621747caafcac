"""What a card says of a model's inputs: the images."""

from s2d_tf.zoo.recipes import Recipe


class Images:
    """A model of raw pixels."""

    examples = taken = "images"
    preparation = "Pass raw pixels: the model normalizes them."
    origin = ""

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        self.image_shape = image_shape

    @property
    def size(self) -> str:
        height, width, _ = self.image_shape
        return f"{height}x{width} images"

    def use(self, name: str) -> str:
        """Lines of Python that load the model and predict."""
        sizes = ", ".join(map(str, self.image_shape))
        return f"""\
model = zoo.load("{name}")
answer = model.predict_uncertainty(images)   # raw pixels [n, {sizes}], 0 to 255"""


def describe_inputs(recipe: Recipe) -> Images:
    """What the model of a recipe takes."""
    return Images(recipe.image_shape)
