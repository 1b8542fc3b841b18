package main

import (
	"math"
	"strconv"
	"strings"
)

// format returns a value with its unit, similar to the format of Grafana.
func format(value float64, unit string) string {
	if suffix, ok := strings.CutPrefix(unit, "suffix:"); ok {
		return digits(value) + suffix
	}
	switch unit {
	case "percentunit":
		return digits(value*100) + "%"
	case "s":
		return seconds(value)
	case "h":
		return seconds(value * 3600)
	case "ops":
		return digits(value) + " ops/s"
	case "reqps":
		return digits(value) + " req/s"
	default:
		return digits(value)
	}
}

// digits returns a value with a number of decimal places that suits its size.
func digits(value float64) string {
	switch size := math.Abs(value); {
	case size == 0:
		return "0"
	case size >= 1e6:
		return trim(value/1e6, 2) + " Mil"
	case size >= 1e3:
		return trim(value/1e3, 2) + " K"
	case size >= 10:
		return trim(value, 1)
	case size >= 1:
		return trim(value, 2)
	default:
		return strconv.FormatFloat(value, 'g', 2, 64)
	}
}

func trim(value float64, places int) string {
	text := strconv.FormatFloat(value, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// seconds formats a duration in seconds. It selects the unit, such as minutes, by the size of the
// duration.
func seconds(value float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{86400, " d"}, {3600, " h"}, {60, " min"}, {1, " s"}, {1e-3, " ms"}} {
		if math.Abs(value) >= unit.size {
			return trim(value/unit.size, 2) + unit.name
		}
	}
	if value == 0 {
		return "0 s"
	}
	return trim(value*1e6, 0) + " µs"
}

// ticks returns the values for the marks on an axis. They are round numbers from 0 to at least
// most.
func ticks(most float64) []float64 {
	if most <= 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{0.2, 0.25, 0.5, 1, 2} {
		if most/(step*part) <= 5 {
			step *= part
			break
		}
	}
	out := []float64{0}
	for out[len(out)-1] < most*(1-1e-9) {
		out = append(out, step*float64(len(out)))
	}
	return out
}

// timeStep returns the distance between two marks on the time axis, in seconds.
func timeStep(span int64) int64 {
	steps := []int64{5, 10, 15, 30, 60, 120, 300, 600, 1800}
	for _, step := range steps {
		if span/step <= 5 {
			return step
		}
	}
	return span / 5
}
