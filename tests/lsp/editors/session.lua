-- A session of Neovim 0.7 or later: nvim --headless -u NONE -c 'luafile session.lua', with NKI_FILE and NKI_SERVER.
local function say(key, value)
  io.stdout:write(vim.json.encode({ key, value }) .. "\n")
end

local function ended()
  vim.cmd("edit " .. vim.fn.fnameescape(vim.env.NKI_FILE))
  vim.bo.filetype = "python"
  local folder = vim.fn.fnamemodify(vim.env.NKI_FILE, ":h")
  local id = vim.lsp.start_client({ name = "nki_lab", cmd = vim.split(vim.env.NKI_SERVER, "\t"), root_dir = folder })
  vim.lsp.buf_attach_client(0, id)
  vim.wait(60000, function() return vim.lsp.get_client_by_id(id).initialized end, 50)
  say("server", vim.lsp.get_client_by_id(id).name)
  vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 50)
  say("diagnostics", vim.tbl_map(function(item) return item.message end, vim.diagnostic.get(0)))

  local function ask(method, line, column)
    local place = { textDocument = vim.lsp.util.make_text_document_params(), position = { line = line, character = column } }
    local answers = vim.lsp.buf_request_sync(0, method, place, 60000) or {}
    return (answers[id] or {}).result
  end

  local line = vim.fn.search("nisa.nc_mat") - 1
  local column = vim.fn.getline(line + 1):find("nc_mat") + 2
  local hover = ask("textDocument/hover", line, column)
  say("hover", table.concat(vim.lsp.util.convert_input_to_markdown_lines(hover.contents), "\n"))
  local last = vim.fn.line("$")
  vim.fn.append(last, "    nisa.nc_ma")
  vim.wait(500)
  local found = ask("textDocument/completion", last, 14)
  say("completion", vim.tbl_map(function(item) return item.label end, vim.lsp.util.extract_completion_items(found)))
  vim.lsp.stop_client(id)
end

local fine, problem = pcall(ended)
if not fine then
  say("error", tostring(problem))
end
vim.cmd("qall!")
