"""Python loads it when it starts: processes that a test starts have the planted bug too.

On the path only for bugs that are marked `in_children`.
"""

import plants

plants.start()
