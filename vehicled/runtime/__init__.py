"""The only async and operating-system code: event loop, pumps, link, real-time set-up."""
