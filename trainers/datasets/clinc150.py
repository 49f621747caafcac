"""CLINC150: sentences with one of 150 intents, and sentences that have none of them."""

from __future__ import annotations

import json
import pathlib
import typing

from s2d_tf.data import MissingDataError

if typing.TYPE_CHECKING:
    import numpy as np

FILE_NAME = "data_full.json"
URL = (
    "https://raw.githubusercontent.com/clinc/oos-eval/"
    "828f8093932c8fe6ca7936c3d2e52903b1c523de/data/data_full.json"
)
SHA256 = "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0"
CLASSES = (
    "accept_reservations", "account_blocked", "alarm", "application_status", "apr",
    "are_you_a_bot", "balance", "bill_balance", "bill_due", "book_flight", "book_hotel",
    "calculator", "calendar", "calendar_update", "calories", "cancel", "cancel_reservation",
    "car_rental", "card_declined", "carry_on", "change_accent", "change_ai_name",
    "change_language", "change_speed", "change_user_name", "change_volume",
    "confirm_reservation", "cook_time", "credit_limit", "credit_limit_change", "credit_score",
    "current_location", "damaged_card", "date", "definition", "direct_deposit", "directions",
    "distance", "do_you_have_pets", "exchange_rate", "expiration_date", "find_phone",
    "flight_status", "flip_coin", "food_last", "freeze_account", "fun_fact", "gas", "gas_type",
    "goodbye", "greeting", "how_busy", "how_old_are_you", "improve_credit_score", "income",
    "ingredient_substitution", "ingredients_list", "insurance", "insurance_change",
    "interest_rate", "international_fees", "international_visa", "jump_start",
    "last_maintenance", "lost_luggage", "make_call", "maybe", "meal_suggestion",
    "meaning_of_life", "measurement_conversion", "meeting_schedule", "min_payment", "mpg",
    "new_card", "next_holiday", "next_song", "no", "nutrition_info", "oil_change_how",
    "oil_change_when", "order", "order_checks", "order_status", "pay_bill", "payday",
    "pin_change", "play_music", "plug_type", "pto_balance", "pto_request", "pto_request_status",
    "pto_used", "recipe", "redeem_rewards", "reminder", "reminder_update", "repeat",
    "replacement_card_duration", "report_fraud", "report_lost_card", "reset_settings",
    "restaurant_reservation", "restaurant_reviews", "restaurant_suggestion", "rewards_balance",
    "roll_dice", "rollover_401k", "routing", "schedule_maintenance", "schedule_meeting",
    "share_location", "shopping_list", "shopping_list_update", "smart_home", "spelling",
    "spending_history", "sync_device", "taxes", "tell_joke", "text", "thank_you", "time",
    "timer", "timezone", "tire_change", "tire_pressure", "todo_list", "todo_list_update",
    "traffic", "transactions", "transfer", "translate", "travel_alert", "travel_notification",
    "travel_suggestion", "uber", "update_playlist", "user_name", "vaccines", "w2", "weather",
    "what_are_your_hobbies", "what_can_i_ask_you", "what_is_your_name", "what_song",
    "where_are_you_from", "whisper_mode", "who_do_you_work_for", "who_made_you", "yes",
)  # fmt: skip
"""The intents in alphabetical order; labels are positions in it."""


def load(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Sentences, an array of texts [N], and labels int64 [N] of one split.

    Args:
        name: "clinc150", or "clinc150_oos" for the out-of-scope sentences; their label is -1.
        split: "train", "validation" or "test", as published.
        data_dir: folder that holds `clinc150/data_full.json`.
    """
    import numpy as np  # Here: names of datasets need no NumPy.

    part = "val" if split == "validation" else split
    examples = read(name, data_dir)[f"oos_{part}" if name.endswith("_oos") else part]
    labels = [CLASSES.index(intent) if intent != "oos" else -1 for _, intent in examples]
    return np.array([sentence for sentence, _ in examples]), np.array(labels, dtype=np.int64)


def read(name: str, data_dir: pathlib.Path) -> dict[str, list]:
    """The published file; nothing is downloaded: the error says where to get it."""
    from s2d_tf.data import hashing

    path = data_dir / "clinc150" / FILE_NAME
    MissingDataError.unless(
        path.is_file(),
        f"{path.parent}: expected {FILE_NAME} (2.5 MB), which {name!r} is read from, received "
        f"none. Put it there from {URL}, or set --data_dir or TFDS_DATA_DIR to another folder.",
    )
    hashing.check_digest(path, SHA256, "sha256")
    return json.loads(path.read_bytes())
