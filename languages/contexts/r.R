# SPDX-License-Identifier: MIT
#
# An R that is kept between cells of code.
#
# Cells are evaluated in the global environment, an expression after the other; what is visible is printed, as by R
# itself, but for the last one, which is the result (a semicolon at the end of the cell makes it none). Nothing of
# this file is in the global environment; `display`, `quit` and `q` are in "tools:nsbox" on the search path.
#
#	display(x), display("<b>bold</b>", "text/html"), display(raw_vector, "image/png")
#
# This file is parsed whole, by the language's file: R takes a second to read an expression so long as a program.
#
# Descriptors. R can neither copy one nor keep it from programs that it starts. So a shell stays above R that has
# those of the protocol, and R opens them by /proc/PARENT/fd only while it reads a request or writes a reply: while
# a cell runs, there is none.
#
# Interrupts. All of this file runs with interrupts suspended, and only what a cell calls with them. One that came
# between cells would be taken as soon as they are allowed; it is taken and thrown away before that
# (forget_interrupts). The C library's system() ignores SIGINT in who waits; so system() waits here as it does with
# intern = TRUE.
#
# Plots. Where a device is needed and none is open, one is opened that writes PNG files (options repr.plot.width,
# .height in inches, .res), and at the end of the cell they are shown and it is closed. It keeps a display list,
# from which, and from notes that some functions of graphics are made to take, comes the chart as data. With
# ggplot2, layers say what there is.
#
# JSON. Vectors of length 1 without names are scalars, NA is null, names make objects, data frames are {columns,
# index, data, dtypes, rows}, matrices arrays of rows. Numbers that JSON has not (NaN, Inf), other classes and
# attributes: no JSON, nor have values of more than 2 MB.
#
# quit() ends the cell, not the context, and is an error where its status is not 0; base::quit() ends the context.

local(envir = new.env(parent = .BaseNamespaceEnv), {
  MAX_TEXT <- 65536L
  MAX_HTML <- 262144L
  MAX_JSON <- 65536L
  MAX_IMAGE <- 4194304L
  MAX_OBJECT <- 2e6 # bytes of a value that is tried as JSON
  MAX_DISPLAYS <- 39L # and the result
  MAX_ROWS <- 100L
  MAX_COLUMNS <- 50L
  MAX_POINTS <- 200L
  CHART <- "application/vnd.nsbox.chart+json"

  parent <- commandArgs(trailingOnly = TRUE)[2L]
  pid <- Sys.getpid()
  requests <- sprintf("/proc/%s/fd/0", parent)
  replies <- sprintf("/proc/%s/fd/3", parent)
  state <- new.env() # of the cell that runs: id, values, displays, pages

  # --- the protocol ---

  reply <- function(header, ...) {
    connection <- file(replies, "wb", raw = TRUE)
    on.exit(close(connection))
    writeBin(c(charToRaw(header), as.raw(10L), ...), connection)
  }

  # The next cell: its id, and its code as raw. NULL: there will be none.
  request <- function() {
    connection <- file(requests, "rb", raw = TRUE)
    on.exit(close(connection))
    line <- raw()
    repeat {
      byte <- readBin(connection, "raw", 1L)
      if (length(byte) == 0L) return(NULL)
      if (byte == as.raw(10L)) break
      line <- c(line, byte)
    }
    words <- strsplit(rawToChar(line), " ", fixed = TRUE)[[1L]]
    stopifnot(length(words) == 3L, words[1L] == "run")
    length <- as.integer(words[3L])
    code <- raw()
    while (length(code) < length) {
      part <- readBin(connection, "raw", length - length(code))
      if (length(part) == 0L) return(NULL)
      code <- c(code, part)
    }
    list(id = words[2L], code = code)
  }

  # --- texts ---

  utf8 <- function(text) {
    text <- enc2utf8(text)
    wrong <- !validUTF8(text)
    text[wrong] <- iconv(text[wrong], "UTF-8", "UTF-8", sub = "byte")
    text
  }

  # Bytes that begin and end between characters.
  whole <- function(bytes) {
    text <- rawToChar(bytes)
    charToRaw(iconv(text, "UTF-8", "UTF-8", sub = ""))
  }

  # Head and tail of a text that is too long, as raw, and between them a line about the rest.
  bound <- function(bytes, limit) {
    size <- length(bytes)
    if (size <= limit) return(bytes)
    head <- whole(bytes[seq_len(limit %/% 2L)])
    tail <- whole(bytes[(size - limit %/% 2L + 1L):size])
    c(head, charToRaw(utf8(sprintf("\n\u2026 %d bytes left out \u2026\n", size - length(head) - length(tail)))), tail)
  }

  as_bytes <- function(text) charToRaw(utf8(paste(text, collapse = "\n")))

  # What is printed while an expression is evaluated, as raw. An interrupt can come between any two steps: what is
  # open is kept in the state, for the end of the cell.
  captured <- function(expr) {
    suspendInterrupts({
      depth <- sink.number()
      connection <- rawConnection(raw(), "wb")
      state$captures <- c(list(list(connection = connection, depth = depth)), state$captures)
      sink(connection)
    })
    force(expr)
    suspendInterrupts({
      while (sink.number() > depth) sink()
      bytes <- rawConnectionValue(connection)
      end_captures(1L)
    })
    bytes <- bytes[bytes != as.raw(0L)]
    if (length(bytes) > 0L && bytes[length(bytes)] == as.raw(10L)) bytes <- bytes[-length(bytes)]
    as_bytes(rawToChar(bytes))
  }

  # The innermost ones.
  end_captures <- function(count) {
    for (capture in state$captures[seq_len(count)]) {
      while (sink.number() > capture$depth) sink()
      close(capture$connection)
    }
    state$captures <- state$captures[-seq_len(count)]
  }

  # --- JSON ---

  a_condition <- function(class, message, ...) structure(class = class, list(message = message, call = NULL, ...))

  no_json <- function() stop(a_condition(c("no_json", "error", "condition"), "no JSON"))

  json_string <- function(text) {
    text <- enc2utf8(as.character(text))
    if (!all(validUTF8(text[!is.na(text)]))) no_json()
    quoted <- gsub("\\", "\\\\", text, fixed = TRUE)
    quoted <- gsub("\"", "\\\"", quoted, fixed = TRUE)
    if (any(grepl("[\001-\037]", quoted)))
      for (code in 1:31) quoted <- gsub(intToUtf8(code), sprintf("\\u%04x", code), quoted, fixed = TRUE)
    ifelse(is.na(text), "null", paste0("\"", quoted, "\""))
  }

  json_number <- function(numbers) {
    if (any(is.nan(numbers) | is.infinite(numbers))) no_json()
    text <- sprintf("%.15g", numbers)
    known <- which(!is.na(numbers))
    rough <- known[as.numeric(text[known]) != numbers[known]]
    text[rough] <- sprintf("%.17g", numbers[rough])
    ifelse(is.na(numbers), "null", text)
  }

  json_items <- function(x) {
    if (is.character(x)) return(json_string(x))
    if (is.logical(x)) return(ifelse(is.na(x), "null", ifelse(x, "true", "false")))
    if (is.integer(x)) return(ifelse(is.na(x), "null", format(x, scientific = FALSE, trim = TRUE)))
    if (is.double(x)) return(json_number(x))
    if (is.list(x)) return(vapply(x, json, ""))
    no_json()
  }

  json_array <- function(items) paste0("[", paste(items, collapse = ","), "]")

  json_object <- function(names, items) {
    if (length(names) == 0L) return("{}")
    if (anyNA(names) || any(names == "") || anyDuplicated(names)) no_json()
    paste0("{", paste0(json_string(names), ":", items, collapse = ","), "}")
  }

  json <- function(x) {
    if (is.null(x)) return("null")
    if (length(x) == 1L && is.atomic(x) && is.null(attributes(x))) return(json_items(x))
    if (is.data.frame(x)) return(json_table(x))
    if (is.object(x) || length(setdiff(names(attributes(x)), c("names", "dim", "dimnames")))) no_json()
    if (!is.null(dim(x))) {
      if (length(dim(x)) != 2L || !is.atomic(x)) no_json()
      return(json_array(vapply(seq_len(nrow(x)), function(i) json_array(json_items(as.vector(x[i, ]))), "")))
    }
    items <- json_items(unname(x))
    if (!is.null(names(x))) return(json_object(names(x), items))
    if (is.list(x) || length(x) != 1L) json_array(items) else items
  }

  # Which of so many are kept: the first and the last.
  kept <- function(size, most) {
    half <- most %/% 2L
    if (size <= most) seq_len(size) else c(seq_len(half), (size - half + 1L):size)
  }

  # Of a data frame, a column of a class that is not known as its text.
  json_column <- function(column) {
    if (is.factor(column) || inherits(column, c("Date", "POSIXt", "difftime")))
      return(json_string(as.character(column)))
    if (is.list(column)) {
      one <- function(item) tryCatch(json(item), no_json = function(e) json_string(deparse1(item)))
      return(vapply(column, one, ""))
    }
    if (is.double(column)) {
      column[!is.finite(column)] <- NA
      return(json_number(as.numeric(column)))
    }
    if (is.object(column) || !is.atomic(column) || is.complex(column) || is.raw(column))
      return(json_string(format(column)))
    json_items(as.vector(column))
  }

  json_table <- function(x) {
    x <- flat(x)
    rows <- kept(nrow(x), MAX_ROWS)
    columns <- kept(ncol(x), MAX_COLUMNS)
    part <- x[rows, columns, drop = FALSE]
    cells <- lapply(part, json_column)
    row <- function(i) json_array(vapply(cells, `[`, "", i))
    data <- if (length(cells)) vapply(seq_along(rows), row, "") else character()
    fields <- c(columns = json_array(json_string(names(part))),
      index = json_array(json_items(attr(part, "row.names"))),
      data = json_array(data),
      dtypes = json_array(json_string(vapply(part, function(column) class(column)[1L], ""))),
      rows = nrow(x))
    if (length(rows) < nrow(x)) fields["omitted"] <- nrow(x) - length(rows)
    if (length(columns) < ncol(x)) fields["omitted_columns"] <- ncol(x) - length(columns)
    json_object(names(fields), fields)
  }

  # A data frame of plain columns, also where it is a tibble or has matrices for columns.
  flat <- function(x) {
    x <- as.data.frame(x)
    has_matrices <- any(vapply(x, function(column) !is.null(dim(column)), NA))
    if (has_matrices) do.call(data.frame, c(as.list(x), check.names = FALSE)) else x
  }

  # --- values ---

  html_escaped <- function(text) {
    text <- gsub("&", "&amp;", utf8(text), fixed = TRUE)
    gsub(">", "&gt;", gsub("<", "&lt;", text, fixed = TRUE), fixed = TRUE)
  }

  html_table <- function(x) {
    x <- flat(x)
    rows <- kept(nrow(x), MAX_ROWS)
    columns <- kept(ncol(x), MAX_COLUMNS)
    part <- x[rows, columns, drop = FALSE]
    row <- function(tag, cells) paste0("<tr>", paste0("<", tag, ">", cells, "</", tag, ">", collapse = ""), "</tr>")
    cells <- vapply(part, function(column) html_escaped(trimws(format(column))), character(length(rows)))
    dim(cells) <- c(length(rows), length(columns))
    names <- html_escaped(rownames(part))
    body <- vapply(seq_along(rows), function(i) row("td", c(names[i], cells[i, ])), "")
    if (length(rows) < nrow(x)) {
      gap <- sprintf("<tr><td colspan=\"%d\">\u2026 %d rows left out \u2026</td></tr>", length(columns) + 1L,
        nrow(x) - length(rows))
      body <- append(body, gap, MAX_ROWS %/% 2L)
    }
    paste(c("<table>", "<thead>", row("th", c("", html_escaped(names(part)))), "</thead>", "<tbody>", body, "</tbody>",
      "</table>", sprintf("<p>%d rows, %d columns</p>", nrow(x), ncol(x))), collapse = "\n")
  }

  # As at the prompt.
  show_value <- function(x) if (isS4(x)) methods::show(x) else print(x)

  print_value <- function(x) {
    if (identical(class(x), "data.frame") && nrow(x) > MAX_ROWS) {
      half <- MAX_ROWS %/% 2L
      print(utils::head(x, half))
      cat(sprintf("\u2026 %d of %d rows left out \u2026\n", nrow(x) - 2L * half, nrow(x)))
      print(utils::tail(x, half))
    } else if (is.vector(x) && length(x) > 20000L) {
      half <- if (is.list(x)) 1000L else 10000L
      print(utils::head(x, half))
      cat(sprintf("\u2026 %d of %d elements left out \u2026\n", length(x) - 2L * half, length(x)))
      print(utils::tail(x, half))
    } else if (is.character(x) && is.vector(x) && length(x) == 1L && !is.na(x) && nchar(x, "bytes") > MAX_TEXT) {
      half <- MAX_TEXT %/% 8L
      size <- nchar(x)
      print(substr(x, 1L, half))
      cat(sprintf("\u2026 %d of %d characters left out \u2026\n", size - 2L * half, size))
      print(substr(x, size - half + 1L, size))
    } else {
      show_value(x)
    }
  }

  # What a value is, by MIME types; raw.
  represent <- function(x) {
    text <- captured(print_value(x))
    parts <- list()
    if (length(text)) parts[["text/plain"]] <- text
    if (is.data.frame(x)) parts[["text/html"]] <- as_bytes(html_table(x))
    if (inherits(x, "htmlwidget") || inherits(x, "shiny.tag") || inherits(x, "shiny.tag.list") || inherits(x, "html"))
      parts[["text/html"]] <- as_bytes(as.character(x))
    text <- tryCatch(if (object_size(x) < MAX_OBJECT) json(x), no_json = function(e) NULL)
    if (!is.null(text)) parts[["application/json"]] <- as_bytes(text)
    parts
  }

  object_size <- function(x) if (is.atomic(x) || is.list(x)) as.numeric(utils::object.size(x)) else 0

  limit_of <- function(mime) {
    if (startsWith(mime, "image/") || mime == "application/pdf") MAX_IMAGE else if (mime == "text/html") MAX_HTML
    else if (startsWith(mime, "text/")) MAX_TEXT else MAX_JSON
  }

  show_parts <- function(kind, parts) {
    if (length(parts) == 0L) return()
    state$values <- state$values + 1L
    for (mime in names(parts)) {
      bytes <- parts[[mime]]
      limit <- limit_of(mime)
      if (startsWith(mime, "text/")) bytes <- bound(bytes, limit)
      header <- sprintf("%s %d %s %s %d", state$id, state$values, kind, mime, length(bytes))
      if (length(bytes) > limit + 512L) reply(paste("cut", header)) else reply(paste("part", header), bytes)
    }
  }

  show_display <- function(parts) {
    if (length(parts) == 0L) return()
    state$displays <- state$displays + 1L
    if (state$displays <= MAX_DISPLAYS) show_parts("display", parts)
  }

  display <- function(x, mime = NULL) {
    if (is.null(state$id)) stop("display(): no cell runs")
    if (is.null(mime)) {
      parts <- represent(x)
    } else {
      if (!grepl("^[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]*$", mime)) stop("display(): no MIME type: ", mime)
      parts <- list()
      parts[[mime]] <- if (is.raw(x)) x else as_bytes(x)
    }
    suspendInterrupts(show_display(parts))
    invisible()
  }

  # --- plots ---

  # Not asked for at the start, nor "png", for which R looks for an X server.
  delayedAssign("has_png", isTRUE(unname(capabilities("cairo"))))

  option <- function(name, default) {
    value <- getOption(name, default)
    if (is.numeric(value) && length(value) == 1L && is.finite(value) && value > 0) value else default
  }

  open_device <- function(...) {
    folder <- tempfile("plots")
    dir.create(folder)
    width <- option("repr.plot.width", 7)
    height <- option("repr.plot.height", 5)
    if (has_png) {
      grDevices::png(file.path(folder, "%05d.png"), width = width, height = height, units = "in",
        res = option("repr.plot.res", 96), type = "cairo")
    } else {
      if (is.null(state$told)) message("This R cannot write PNG (it has no cairo): plots are PDF.")
      state$told <- TRUE
      grDevices::pdf(file.path(folder, "%05d.pdf"), width = width, height = height, onefile = FALSE)
    }
    grDevices::dev.control(displaylist = "enable")
    state$devices <- c(state$devices, list(list(number = grDevices::dev.cur(), folder = folder, charts = list())))
  }

  # The index of the current device among those from here that are open, or 0.
  own_device <- function() {
    current <- grDevices::dev.cur()
    for (i in rev(seq_along(state$devices))) {
      if (identical(state$devices[[i]]$number, current)) return(i)
    }
    0L
  }

  # Whether an element of a display list begins a plot, or draws with grid; there are others before a page begins.
  is_drawing <- function(element) {
    name_of(element) == "C_plot_new" || deparse1(element[[1L]]) == ".Primitive(\"recordGraphics\")"
  }

  name_of <- function(element) {
    routine <- element[[2L]][[1L]]
    if (is.list(routine)) as.character(routine$name) else ""
  }

  # The page of the current device is done: what is on it.
  end_page <- function() {
    i <- own_device()
    if (i == 0L) return()
    drawn <- grDevices::recordPlot()[[1L]]
    if (!any(vapply(drawn, is_drawing, NA))) return()
    chart <- tryCatch(chart_of(drawn, state$notes, state$ggplot), error = function(e) NULL)
    charts <- state$devices[[i]]$charts
    state$devices[[i]]$charts <- c(charts, list(chart))
    state$notes <- list()
    state$ggplot <- NULL
  }

  before_plot <- function(...) {
    own <- own_device() > 0L
    if (own && isTRUE(graphics::par("page"))) end_page()
    if (own || grDevices::dev.cur() == 1L) state$notes <- c(state$notes, list(list(kind = "new")))
  }

  before_grid <- function(...) {
    end_page()
    if (!isNamespaceLoaded("ggplot2")) return()
    for (i in seq_len(sys.nframe())) {
      if (identical(environmentName(topenv(environment(sys.function(i)))), "ggplot2")) {
        state$ggplot <- ggplot2::last_plot()
        return()
      }
    }
  }

  # Closes the devices from here, and shows what they drew.
  show_plots <- function() {
    open <- grDevices::dev.list()
    current <- grDevices::dev.cur()
    for (device in state$devices) {
      if (!(device$number %in% open)) next
      grDevices::dev.set(device$number)
      end_page()
      grDevices::dev.off(device$number)
    }
    if (current %in% grDevices::dev.list()) grDevices::dev.set(current)
    for (device in state$devices) {
      files <- list.files(device$folder, full.names = TRUE)
      for (k in seq_along(files)) {
        parts <- list()
        mime <- if (has_png) "image/png" else "application/pdf"
        parts[[mime]] <- readBin(files[k], "raw", file.size(files[k]))
        chart <- if (k <= length(device$charts)) device$charts[[k]]
        if (!is.null(chart)) parts[[CHART]] <- as_bytes(chart)
        show_display(parts)
      }
      unlink(device$folder, recursive = TRUE)
    }
    state$devices <- list()
  }

  # --- charts as data ---

  text_of <- function(x) {
    if (is.null(x) || length(x) == 0L) return(NULL)
    text <- if (is.character(x) || is.numeric(x) || is.factor(x)) as.character(x) else vapply(as.list(x), deparse1, "")
    paste(text, collapse = " ")
  }

  json_text <- function(x) {
    text <- text_of(x)
    if (is.null(text) || is.na(text) || text == "") "null" else json_string(utf8(text))
  }

  # Numbers of a chart; what JSON has not is null.
  json_value <- function(x) {
    if (is.character(x)) return(json_string(x))
    x <- as.numeric(x)
    x[!is.finite(x)] <- NA
    json_number(signif(x, 10L))
  }

  evenly <- function(size) {
    if (size <= MAX_POINTS) seq_len(size) else unique(round(seq(1, size, length.out = MAX_POINTS)))
  }

  series_json <- function(kind, label, name, items) {
    keep <- evenly(length(items))
    fields <- c(kind = json_string(kind), label = json_text(label))
    fields[name] <- json_array(items[keep])
    if (length(keep) < length(items)) fields["omitted"] <- length(items) - length(keep)
    list(kind = kind, json = json_object(names(fields), fields))
  }

  points_series <- function(kind, label, x, y) {
    use <- !is.na(x) & !is.na(y)
    series_json(kind, label, "points", sprintf("[%s,%s]", json_value(x[use]), json_value(y[use])))
  }

  bars_series <- function(kind, label, labels, values, more = "") {
    items <- sprintf("{\"label\":%s,\"value\":%s%s}", vapply(labels, json_text, ""), json_value(values), more)
    series_json(kind, label, "bars", items)
  }

  # Bars between breaks.
  bins_series <- function(from, to, counts) {
    more <- sprintf(",\"from\":%s,\"to\":%s", json_value(from), json_value(to))
    bars_series("histogram", NULL, paste(signif(from, 6L), "to", signif(to, 6L)), counts, more)
  }

  # `stats`: five rows; `outliers`: a list.
  boxes_series <- function(names, stats, outliers) {
    stats[] <- json_value(stats)
    outliers <- vapply(outliers, function(values) json_array(json_value(values[evenly(length(values))])), "")
    items <- sprintf("{\"label\":%s,\"min\":%s,\"q1\":%s,\"median\":%s,\"q3\":%s,\"max\":%s,\"outliers\":%s}",
      vapply(names, json_text, ""), stats[1L, ], stats[2L, ], stats[3L, ], stats[4L, ], stats[5L, ], outliers)
    series_json("box", NULL, "boxes", items)
  }

  # `rows`: a list of numbers.
  heatmap_series <- function(rows) {
    one <- function(row) json_array(json_value(row[evenly(length(row))]))
    series_json("heatmap", NULL, "values", vapply(rows, one, ""))
  }

  axis_json <- function(axis) {
    range <- if (is.null(axis$class)) axis$range else date_text(axis$range, axis$class)
    fields <- c(label = json_text(axis$label), scale = json_string(axis$scale), min = json_value(range[1L]),
      max = json_value(range[2L]))
    if (length(axis$ticks)) fields["ticks"] <- json_array(json_string(utf8(axis$ticks[evenly(length(axis$ticks))])))
    json_object(names(fields), fields)
  }

  axes_json <- function(axes) {
    kinds <- unique(vapply(axes$series, `[[`, "", "kind"))
    kind <- if (length(kinds) == 0L) "unknown" else if (length(kinds) == 1L) kinds else "mixed"
    fields <- c(kind = json_string(kind), title = json_text(axes$title))
    if (!identical(kind, "pie")) fields <- c(fields, x = axis_json(axes$x), y = axis_json(axes$y))
    fields["series"] <- json_array(vapply(axes$series, `[[`, "", "json"))
    json_object(names(fields), fields)
  }

  figure_json <- function(axes, title = NULL) {
    if (length(axes) == 0L) return(NULL)
    if (length(axes) == 1L) return(axes_json(axes[[1L]]))
    fields <- c(kind = "\"figure\"", title = json_text(title), axes = json_array(vapply(axes, axes_json, "")))
    json_object(names(fields), fields)
  }

  chart_of <- function(drawn, notes, ggplot) {
    if (!is.null(ggplot)) return(chart_of_ggplot(ggplot))
    starts <- which(vapply(notes, function(note) note$kind == "new", NA))
    notes <- lapply(seq_along(starts), function(i) {
      end <- if (i < length(starts)) starts[i + 1L] - 1L else length(notes)
      notes[seq_len(end - starts[i]) + starts[i]]
    })
    calls <- lapply(drawn, function(element) element[[2L]])
    names <- vapply(drawn, name_of, "")
    news <- which(names == "C_plot_new")
    if (length(news) == 0L) return(NULL)
    axes <- lapply(seq_along(news), function(i) {
      range <- news[i]:(if (i < length(news)) news[i + 1L] - 1L else length(calls))
      axes_of(calls[range], names[range], if (i <= length(notes)) notes[[i]] else list())
    })
    figure_json(Filter(function(one) length(one$series) || !is.null(one$title), axes))
  }

  # What one plot of the display list is, and what high-level functions noted of it.
  axes_of <- function(calls, names, notes) {
    side <- list(scale = "linear", range = c(NA, NA))
    axes <- list(title = NULL, x = side, y = side, series = list())
    found <- function(kind) Filter(function(note) note$kind == kind, notes)
    for (note in found("dates")) {
      axes[[note$side]]$scale <- "datetime"
      axes[[note$side]]$class <- note$class
    }
    for (i in seq_along(calls)) {
      call <- calls[[i]]
      if (names[i] == "C_plot_window" && is.na(axes$x$range[1L])) {
        axes$x$range <- call[[2L]]
        axes$y$range <- call[[3L]]
        for (side in c("x", "y")) if (grepl(side, call[[4L]], fixed = TRUE)) axes[[side]]$scale <- "log"
      } else if (names[i] == "C_title") {
        if (is.null(axes$title)) axes$title <- text_of(call[[2L]])
        if (is.null(axes$x$label)) axes$x$label <- text_of(call[[4L]])
        if (is.null(axes$y$label)) axes$y$label <- text_of(call[[5L]])
      } else if (names[i] == "C_axis" && is.numeric(call[[2L]])) {
        side <- if (call[[2L]] %% 2 == 1) "x" else "y"
        labels <- call[[4L]]
        if (is.character(labels) && is.null(axes[[side]]$ticks)) {
          axes[[side]]$ticks <- labels
          if (axes[[side]]$scale == "linear") axes[[side]]$scale <- "categorical"
        }
      } else if (names[i] == "C_plotXY" && !identical(call[[3L]], "n")) {
        points <- call[[2L]]
        x <- if (is.null(axes$x$class)) points$x else date_text(points$x, axes$x$class)
        kind <- if (call[[3L]] == "p") "scatter" else "line"
        axes$series <- c(axes$series, list(list(kind = kind, x = x, y = points$y)))
      }
    }
    special <- unlist(lapply(notes, noted_series), recursive = FALSE)
    # Outliers of boxes are drawn as points, and what leads to labels of slices as lines.
    if (length(found("box")) || length(found("pie"))) axes$series <- list()
    labels <- unlist(lapply(found("legend"), function(note) as.character(note$labels)))
    if (length(labels) != length(axes$series)) labels <- NULL
    axes$series <- lapply(seq_along(axes$series), function(k) {
      one <- axes$series[[k]]
      points_series(one$kind, labels[k], one$x, one$y)
    })
    axes$series <- c(special, axes$series)
    if (length(found("bar")) && !isTRUE(found("bar")[[1L]]$horizontal)) axes$x$scale <- "categorical"
    axes
  }

  date_text <- function(x, class) {
    if (class == "Date") format(as.Date(x, origin = "1970-01-01"))
    else format(as.POSIXct(x, origin = "1970-01-01"), "%Y-%m-%dT%H:%M:%S")
  }

  noted_series <- function(note) {
    switch(note$kind,
      bar = {
        height <- note$height
        if (!is.matrix(height)) height <- matrix(height, 1L, dimnames = list(NULL, names(height)))
        names <- default_names(note$names, colnames(height), ncol(height))
        lapply(seq_len(nrow(height)), function(i) bars_series("bar", rownames(height)[i], names, height[i, ]))
      },
      histogram = list(bins_series(note$breaks[-length(note$breaks)], note$breaks[-1L], note$counts)),
      pie = {
        items <- sprintf("{\"label\":%s,\"value\":%s,\"percent\":%s}",
          vapply(default_names(note$labels, NULL, length(note$values)), json_text, ""), json_value(note$values),
          json_value(round(100 * note$values / sum(note$values), 4L)))
        list(series_json("pie", NULL, "slices", items))
      },
      box = {
        outliers <- lapply(seq_along(note$names), function(i) note$out[note$group == i])
        list(boxes_series(note$names, note$stats, outliers))
      },
      heatmap = list(heatmap_series(lapply(evenly(ncol(note$z)), function(j) note$z[, j]))),
      list())
  }

  # What was said, or else is known, or else numbers.
  default_names <- function(said, known, count) {
    names <- if (is.null(said)) known else said
    if (length(names) == count) as.character(names) else as.character(seq_len(count))
  }

  chart_of_ggplot <- function(plot) {
    built <- ggplot2::ggplot_build(plot)
    labels <- built$plot$labels
    panels <- sort(unique(unlist(lapply(built$data, function(data) as.integer(data$PANEL)))))
    layout <- built$layout
    axes <- lapply(panels, function(panel) {
      side <- function(name) {
        scale <- layout[[paste0("panel_scales_", name)]][[1L]]
        discrete <- inherits(scale, "ScaleDiscrete")
        transform <- if (is.null(scale$trans)) scale$transformation else scale$trans
        called <- if (is.null(transform)) "" else transform$name
        class <- if (called == "date") "Date" else if (called == "time") "POSIXct"
        kind <- if (discrete) "categorical" else if (!is.null(class)) "datetime"
          else if (startsWith(called, "log")) "log" else "linear"
        inverse <- if (is.null(class) && !is.null(transform)) transform$inverse else identity
        range <- tryCatch(scale$dimension(), error = function(e) c(NA, NA))
        list(label = labels[[name]], scale = kind, class = class, range = inverse(range), inverse = inverse,
          ticks = if (discrete) as.character(scale$get_limits()))
      }
      one <- list(title = labels$title, x = side("x"), y = side("y"), series = list())
      if (length(panels) > 1L) {
        facets <- setdiff(names(layout$layout), c("PANEL", "ROW", "COL", "SCALE_X", "SCALE_Y", "COORD"))
        facet <- layout$layout[layout$layout$PANEL == panel, facets, drop = FALSE]
        one$title <- paste(vapply(facet, as.character, ""), collapse = ", ")
      }
      for (i in seq_along(built$data)) {
        data <- built$data[[i]]
        one$series <- c(one$series, ggplot_series(plot, i, data[as.integer(data$PANEL) == panel, , drop = FALSE], one))
      }
      one
    })
    figure_json(axes, labels$title)
  }

  ggplot_series <- function(plot, i, data, axes) {
    geom <- class(plot$layers[[i]]$geom)[1L]
    kind <- switch(geom, GeomPoint = "scatter", GeomLine = , GeomPath = , GeomStep = , GeomSmooth = , GeomDensity = ,
      GeomFunction = , GeomArea = "line", GeomBar = , GeomCol = "bar", GeomBoxplot = "box", GeomTile = ,
      GeomRaster = "heatmap", NULL)
    if (is.null(kind) || nrow(data) == 0L) return(list())
    if (kind == "bar" && inherits(plot$layers[[i]]$stat, "StatBin")) kind <- "histogram"
    text <- function(side, values) {
      axis <- axes[[side]]
      if (axis$scale == "categorical" && all(values == round(values)) && max(values) <= length(axis$ticks))
        return(axis$ticks[values])
      values <- axis$inverse(as.numeric(values))
      if (is.null(axis$class)) values else date_text(values, axis$class)
    }
    group <- plot$mapping$colour
    if (is.null(group)) group <- plot$mapping$fill
    groups <- split(data, data$group)
    named <- if (!is.null(group)) tryCatch(unique_levels(plot, group, length(groups)), error = function(e) NULL)
    if (kind == "box") {
      stats <- t(as.matrix(data[c("ymin", "lower", "middle", "upper", "ymax")]))
      return(list(boxes_series(text("x", data$x), stats, data$outliers)))
    }
    if (kind == "heatmap") {
      z <- tapply(seq_len(nrow(data)), list(data$y, data$x), function(k) k[1L])
      fill <- plot$data[[tryCatch(all.vars(plot$mapping$fill)[1L], error = function(e) "")]]
      values <- if (is.numeric(fill) && length(fill) == nrow(data)) array(fill[z], dim(z)) else z * NA
      return(list(heatmap_series(lapply(evenly(nrow(values)), function(i) values[i, ]))))
    }
    if (kind %in% c("bar", "histogram") && length(unique(data$fill)) <= 1L) groups <- list(data)
    lapply(seq_along(groups), function(k) {
      one <- groups[[k]]
      label <- if (length(named) == length(groups)) named[k]
      if (kind == "histogram") {
        bins_series(one$xmin, one$xmax, one$count)
      } else if (kind == "bar") {
        bars_series(kind, label, text("x", one$x), one$ymax - one$ymin)
      } else {
        points_series(kind, label, text("x", one$x), text("y", one$y))
      }
    })
  }

  unique_levels <- function(plot, group, count) {
    values <- plot$data[[all.vars(group)[1L]]]
    levels <- if (is.factor(values)) levels(droplevels(values)) else sort(unique(as.character(values)))
    if (length(levels) == count) levels
  }

  # What high-level functions of graphics are called with; by their frames.
  take_note <- function(kind, frame) {
    get <- function(name) eval(as.name(name), frame)
    note <- tryCatch(switch(kind,
      bar = list(height = get("height"), names = get("names.arg"), horizontal = get("horiz")),
      histogram = list(breaks = get("x")$breaks, counts = get("x")$counts),
      pie = list(values = get("x"), labels = get("labels")),
      box = get("z")[c("stats", "names", "out", "group")],
      heatmap = list(z = eval(quote(if (missing(z)) if (is.list(x)) x$z else x else z), frame)),
      legend = list(labels = eval(quote(if (missing(legend)) y else legend), frame)),
      dates = list(side = if (get("side") %% 2 == 1) "x" else "y",
        class = if (inherits(get("x"), "Date")) "Date" else "POSIXct")),
      error = function(e) NULL)
    if (is.null(note)) return()
    note$kind <- kind
    adds <- kind %in% c("legend", "dates") || exists("add", frame, inherits = FALSE) && isTRUE(get("add"))
    # Others open a plot, after this.
    if (adds) state$notes <- c(state$notes, list(note)) else state$early <- c(state$early, list(note))
  }

  after_plot <- function(...) {
    state$notes <- c(state$notes, state$early)
    state$early <- list()
  }

  # Has a function of a package begin with a note, wherever it is: the namespace, the search path, the methods of
  # generics.
  patch <- function(package, name, change) {
    namespace <- asNamespace(package)
    changed <- change(get(name, envir = namespace))
    places <- list(namespace, namespace[[".__S3MethodsTable__."]], baseenv()[[".__S3MethodsTable__."]])
    if (paste0("package:", package) %in% search()) places <- c(places, as.environment(paste0("package:", package)))
    for (place in places) {
      if (is.null(place) || !exists(name, envir = place, inherits = FALSE)) next
      locked <- bindingIsLocked(name, place)
      if (locked) unlockBinding(name, place)
      assign(name, changed, envir = place)
      if (locked) lockBinding(name, place)
    }
  }

  patch_graphics <- function() {
    kinds <- c(barplot.default = "bar", plot.histogram = "histogram", pie = "pie", bxp = "box",
      image.default = "heatmap", legend = "legend", axis.Date = "dates", axis.POSIXct = "dates")
    for (name in names(kinds)) {
      if (!exists(name, envir = asNamespace("graphics"), inherits = FALSE)) next
      patch("graphics", name, function(original) {
        body(original) <- call("{", as.call(list(take_note, kinds[[name]], quote(environment()))), body(original))
        original
      })
    }
    setHook("before.plot.new", before_plot, "append")
    setHook("plot.new", after_plot, "append")
    setHook("before.grid.newpage", before_grid, "append")
  }

  patch_system <- function() {
    patch("base", "system", function(original) {
      changed <- original
      body(changed) <- bquote({
        if (!wait || timeout != 0 || !is.character(command) || length(command) != 1L) return(.(body(original)))
        if (intern) {
          value <- .(original)(command, TRUE, ignore.stdout, ignore.stderr, TRUE, input)
        } else {
          command <- paste("sh -c", shQuote(command), .(sprintf(">/proc/%d/fd/1", pid)))
          value <- suppressWarnings(.(original)(command, TRUE, ignore.stdout, ignore.stderr, TRUE, input))
          value <- if (is.null(attr(value, "status"))) 0L else attr(value, "status")
        }
        for (i in 1:3000) NULL # takes an interrupt that is there
        if (intern) value else invisible(value)
      })
      changed
    })
  }

  # --- warnings and errors ---

  is_from_here <- function(call) {
    identical(call, quote(eval(expression, .GlobalEnv))) ||
      identical(call, quote(withVisible(eval(expression, .GlobalEnv))))
  }

  on_warning <- function(w) {
    if (!identical(as.integer(getOption("warn")), 0L)) return()
    call <- conditionCall(w)
    if (is_from_here(call)) call <- NULL
    if (length(state$warnings) < 50L) {
      one <- list(call)
      names(one) <- conditionMessage(w)
      state$warnings <- c(state$warnings, one)
    }
    invokeRestart("muffleWarning")
  }

  # As R does once an expression at the top is done.
  show_warnings <- function() {
    if (length(state$warnings) == 0L) return()
    shown <- structure(state$warnings, class = "warnings")
    state$warnings <- list()
    state$last_warnings <- shown
    text <- captured(print(shown))
    cat(rawToChar(text), "\n", sep = "", file = stderr())
  }

  # The line of the statement of an expression that has a call, if that is there once; else its first.
  line_within <- function(expression, call, reference) {
    if (is.null(reference)) return(0L)
    if (is.call(expression) && is.call(call)) {
      found <- which(vapply(as.list(expression), has_call, NA, call))
      if (length(found) == 1L) {
        references <- attr(expression, "srcref")
        if (length(references) >= found) reference <- references[[found]]
        return(line_within(expression[[found]], call, reference))
      }
    }
    as.integer(reference)[1L]
  }

  has_call <- function(expression, call) {
    identical(expression, call) ||
      is.call(expression) && any(vapply(as.list(expression), function(part) !missing(part) && has_call(part, call), NA))
  }

  # The calls of an error, and the line where the innermost one of the cell's is.
  on_error <- function(e) {
    if (inherits(e, "parseError")) return()
    calls <- sys.calls()
    state$line <- 0L
    for (call in rev(calls)) {
      reference <- attr(call, "srcref")
      file <- attr(reference, "srcfile")
      if (!is.null(file) && identical(file$filename, state$name)) {
        state$line <- as.integer(reference)[1L]
        break
      }
    }
    if (state$line == 0L) state$line <- line_within(state$expression, conditionCall(e), state$reference)
    # From the cell's own call to the one that says the error.
    is_start <- function(i) is_from_here(calls[[i]]) || identical(sys.function(i), show_value)
    start <- which(vapply(seq_along(calls), is_start, NA))
    if (length(start) == 0L) return()
    calls <- calls[-seq_len(max(start))]
    sayers <- list(quote(.handleSimpleError), quote(stop), quote(h))
    ends <- which(vapply(calls, function(call) list(call[[1L]]) %in% sayers || is.function(call[[1L]]), NA))
    if (length(ends)) calls <- calls[seq_len(min(ends) - 1L)]
    state$calls <- calls
  }

  call_text <- function(call) {
    text <- deparse(call, nlines = 1L)[1L]
    reference <- attr(call, "srcref")
    file <- attr(reference, "srcfile")$filename
    if (nchar(text) > 200L) text <- paste0(substr(text, 1L, 200L), " \u2026")
    if (is.null(file) || file == "") text else sprintf("%s at %s:%d", text, file, as.integer(reference)[1L])
  }

  trace_of <- function(e) {
    call <- conditionCall(e)
    message <- conditionMessage(e)
    within <- if (!is.null(call) && !is_from_here(call)) paste0(" in ", deparse(call, nlines = 1L)[1L], " ")
    head <- paste0("Error", within, ": ", message)
    calls <- state$calls
    if (length(calls) > 40L) calls <- c(calls[1:20], list(quote(...)), calls[(length(calls) - 19L):length(calls)])
    if (length(calls) == 0L) return(head)
    paste(c(head, "Calls:", sprintf("%3d. %s", seq_along(calls), vapply(calls, call_text, ""))), collapse = "\n")
  }

  reply_error <- function(line, name, message, trace) {
    texts <- list(bound(as_bytes(name), 1024L), bound(as_bytes(message), MAX_TEXT), bound(as_bytes(trace), MAX_TEXT))
    reply(sprintf("error %s %d %s", state$id, line, paste(lengths(texts), collapse = " ")), unlist(texts))
  }

  # --- a cell ---

  forget_interrupts <- function() {
    tryCatch(allowInterrupts(for (i in 1:3000) NULL), interrupt = function(c) NULL)
  }

  leave <- function(save = "default", status = 0, runLast = TRUE) {
    if (is.null(state$id)) base::quit(save, status, runLast)
    stop(a_condition(c("nsbox_quit", "condition"), "quit()", status = as.integer(status)))
  }

  read_code <- function(bytes) {
    if (any(bytes == as.raw(0L))) stop("the code has NUL bytes, which R cannot hold", call. = FALSE)
    text <- rawToChar(bytes)
    Encoding(text) <- "UTF-8"
    if (!validUTF8(text)) stop("the code is no UTF-8", call. = FALSE)
    text
  }

  parsed <- function(text) {
    lines <- strsplit(text, "\n", fixed = TRUE)[[1L]]
    source <- srcfilecopy(state$name, lines)
    tryCatch(parse(text = text, keep.source = TRUE, srcfile = source, encoding = "UTF-8"), error = function(e) {
      message <- conditionMessage(e)
      found <- regmatches(message, regexec(":([0-9]+):[0-9]+: ", message))[[1L]]
      if (length(found) == 0L) stop(e)
      state$line <- as.integer(found[2L])
      stop(a_condition(c("parseError", "error", "condition"), message))
    })
  }

  # What the code of a cell is evaluated by; returns the representations of its result, if it has one.
  evaluate <- function(text) {
    expressions <- parsed(text)
    references <- attr(expressions, "srcref")
    quiet <- grepl(";[[:space:]]*$", sub("#[^\n]*$", "", text))
    result <- NULL
    for (i in seq_along(expressions)) {
      expression <- expressions[[i]]
      state$reference <- references[[i]]
      state$expression <- expression
      value <- withVisible(eval(expression, .GlobalEnv))
      if (value$visible) {
        assign(".Last.value", value$value, envir = baseenv())
        if (i < length(expressions)) print_value(value$value)
        else if (!quiet) result <- represent(value$value)
      }
      show_warnings()
    }
    result
  }

  # Evaluates; returns the status, the result, and what went wrong.
  run <- function(bytes) {
    outcome <- list(status = "ok")
    failed <- function(e) list(status = "error", error = e)
    tryCatch({
      result <- withCallingHandlers(allowInterrupts(evaluate(read_code(bytes))), error = on_error, warning = on_warning)
      outcome$result <- result
      outcome
    }, nsbox_quit = function(c) {
      if (c$status == 0L) return(outcome)
      failed(a_condition(c("quit", "error", "condition"), paste("status", c$status)))
    }, interrupt = function(c) list(status = "interrupted"), error = failed)
  }

  serve <- function(cell) {
    state$id <- cell$id
    state$name <- sprintf("<cell %s>", cell$id)
    state$values <- 0L
    state$displays <- 0L
    state$line <- 0L
    state$reference <- NULL
    state$calls <- list()
    forget_interrupts()
    outcome <- run(cell$code)
    end_captures(length(state$captures))
    if (Sys.getpid() != pid) base::quit("no", if (outcome$status == "ok") 0L else 1L, FALSE)
    for (again in 1:2) tryCatch(show_warnings(), error = function(e) NULL)
    tryCatch(show_plots(), error = function(e) {
      state$devices <- list()
      message("The plots of this cell cannot be shown: ", conditionMessage(e))
    })
    if (state$displays > MAX_DISPLAYS) {
      text <- sprintf("%d more were displayed, too many for one cell", state$displays - MAX_DISPLAYS)
      show_parts("display", list("text/plain" = as_bytes(text)))
    }
    if (length(outcome$result)) show_parts("result", outcome$result)
    e <- outcome$error
    if (!is.null(e)) reply_error(state$line, class(e)[1L], conditionMessage(e), trace_of(e))
    flush(stdout())
    id <- state$id
    state$id <- NULL
    state$calls <- list()
    reply(sprintf("end %s %s", id, outcome$status))
  }

  suspendInterrupts({
    if (!isTRUE(l10n_info()[["UTF-8"]]))
      for (name in c("C.UTF-8", "en_US.UTF-8")) if (Sys.setlocale("LC_CTYPE", name) != "") break
    options(device = open_device, keep.source = TRUE, warn = 0L)
    patch_graphics()
    patch_system()
    unlockBinding(".Last.value", baseenv())
    own <- attach(NULL, name = "tools:nsbox", warn.conflicts = FALSE)
    for (name in c("quit", "q")) assign(name, leave, envir = own)
    assign("display", display, envir = own)
    assign("warnings", function(...) state$last_warnings, envir = own)
    state$captures <- state$devices <- state$notes <- state$early <- state$warnings <- list()
    reply("ready")
    while (!is.null(cell <- request())) serve(cell)
    base::quit("no", 0L, TRUE)
  })
})
