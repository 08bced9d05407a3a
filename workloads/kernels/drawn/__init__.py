"""What matrix generators draw from: integers that are the same on every host, and meshes."""
