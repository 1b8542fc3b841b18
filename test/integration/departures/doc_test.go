// Package departures is about what does not go as planned while victims leave, on a real API server: nodes that are lost,
// pods that do not go, and budgets whose status lags behind.
package departures
