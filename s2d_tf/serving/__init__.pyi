from s2d_tf.serving.protocol import Limits as Limits
from s2d_tf.serving.servable import Servables as Servables
from s2d_tf.serving.app import create_app as create_app
from s2d_tf.serving.server import serve as serve
