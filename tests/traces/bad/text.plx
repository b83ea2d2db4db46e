# started on Mon Jan  1 00:00:00 2024

