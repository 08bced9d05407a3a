"""What is learned from measurements: folds that leave groups out, and what is fitted and scored by them."""
