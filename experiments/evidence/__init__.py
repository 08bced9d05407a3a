"""Whether it is true: papers reproduced and scoreboards against public measurements. Product code never imports it."""
