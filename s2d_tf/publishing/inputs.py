"""What a card says of a model's inputs: images, or texts through an encoder."""

from s2d_tf.recipes import Encoder, Recipe


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


class Texts:
    """A head on the vectors of an encoder."""

    examples, taken, size = "sentences", "vectors", "sentences"
    preparation = "With `--encoder=FOLDER` it takes texts, otherwise vectors of the encoder."

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @property
    def origin(self) -> str:
        """The encoder by name and hashes."""
        encoder = self.encoder
        listed = "\n".join(f"- `{name}`: `{digest}`" for name, digest in encoder.sha256.items())
        return f"""
The encoder is not included: {encoder.name}, as published by its authors. A vector is the mean of \
its outputs over at most {encoder.sequence_length} tokens, {encoder.features} numbers. Its files \
must have these hashes:

{listed}
"""

    def use(self, name: str) -> str:
        """Lines of Python that load the model and predict."""
        return f"""\
model = zoo.load("{name}")                    # takes vectors [n, {self.encoder.features}]
model = zoo.load("{name}", encoder=FOLDER)    # takes texts; needs s2d_tf[text]
answer = model.predict_uncertainty(["one sentence", "another one"])"""


def describe_inputs(recipe: Recipe) -> Images | Texts:
    """What the model of a recipe takes."""
    if recipe.stands_on is not None:
        return Texts(recipe.stands_on)
    return Images(recipe.image_shape)
